package plan

import (
	"encoding/json"
	"fmt"
)

// view is a state as it is shown to readers: no times, owners and bytes.
type view struct {
	Type   Type   `json:"type"`
	Mode   string `json:"mode,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Target string `json:"target,omitempty"`
	Device string `json:"device,omitempty"`
}

// viewOf returns the view of a state; nil for a state that says nothing.
func viewOf(s State) *view {
	v := view{Type: s.Type, SHA256: s.Hash, Size: s.Size, Target: s.Target}
	switch s.Type {
	case "":
		return nil
	case TypeFile, TypeDirectory, TypeDevice:
		v.Mode = fmt.Sprintf("%04o", s.Mode)
	case TypeAbsent, TypeSymlink, TypeOther:
	}
	if s.Type == TypeDevice {
		v.Device = fmt.Sprintf("%d:%d", s.Major, s.Minor)
	}
	return &v
}

// MarshalJSON renders a change for readers: symbol, operation, kind, path, the
// states without their bytes, and the lines that change in text files.
func (c Change) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Symbol  string   `json:"symbol"`
		Op      Op       `json:"op"`
		Kind    Kind     `json:"kind"`
		Path    string   `json:"path"`
		From    *view    `json:"from,omitempty"`
		To      *view    `json:"to,omitempty"`
		Source  *Source  `json:"source,omitempty"`
		Edit    *Edit    `json:"edit,omitempty"`
		Because []string `json:"because,omitempty"`
		Group   string   `json:"group,omitempty"`
		Why     string   `json:"why,omitempty"`
		Note    string   `json:"note,omitempty"`
		Text    string   `json:"text,omitempty"`
	}{c.Symbol(), c.Op, c.Kind, c.Path, viewOf(c.From), viewOf(c.To), c.Source, c.Edit, c.Because, c.Group, c.Why, c.Note, c.Text()})
}
