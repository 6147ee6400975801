package containerd

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Rehearse returns a root file with which the daemon's own `config dump` shows what
// the planned configuration would mean, before anything is in place: root as it is
// planned, whose imports are absolute, with each planned file that is not the root
// itself imported last from where its copy lies (copies: planned path to copy).
func Rehearse(root File, copies map[string]string) ([]byte, error) {
	t, err := parse(root.Path, root.Data)
	if err != nil {
		return nil, err
	}
	list, err := t.imports()
	if err != nil {
		return nil, err
	}
	var quoted []string
	for _, p := range list {
		if !path.IsAbs(p) {
			p = path.Join(path.Dir(root.Path), p)
		}
		quoted = append(quoted, quote(p))
	}
	for _, planned := range slices.Sorted(maps.Keys(copies)) {
		quoted = append(quoted, quote(copies[planned]))
	}
	value := "[" + strings.Join(quoted, ", ") + "]"
	d, err := scanTop(root.Data)
	if err != nil {
		return nil, err
	}
	if s, ok := d.find("imports"); ok {
		return splice(cut(root.Data, s.valueStart, s.valueEnd), s.valueStart, value), nil
	}
	line := "imports = " + value + "\n"
	if len(d.statements) > 0 {
		return splice(root.Data, d.statements[0].start, line), nil
	}
	return splice(root.Data, startOfLine(root.Data, d.bodyStart), line), nil
}

// Options returns, by handler, the options that a configuration (as `config dump`
// prints it) gives to our handlers; a handler that it does not have is missing.
func Options(dump []byte, handlers []Handler) (map[string]map[string]any, error) {
	t, err := parse("configuration dump", dump)
	if err != nil {
		return nil, err
	}
	cri, _, err := t.cri()
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]any{}
	for _, h := range handlers {
		rt := table(cri, "containerd", "runtimes", h.Name)
		if rt == nil {
			continue
		}
		options := map[string]any{}
		for k, v := range table(rt, "options") {
			if !zero(v) {
				options[k] = v
			}
		}
		out[h.Name] = options
	}
	return out, nil
}

// Proves says whether a dump shows every handler with its binary; the error names
// what it shows instead.
func Proves(dump []byte, handlers []Handler) error {
	shown, err := Options(dump, handlers)
	if err != nil {
		return err
	}
	for _, h := range handlers {
		options, ok := shown[h.Name]
		if !ok {
			return fmt.Errorf("the daemon would not know the handler %q", h.Name)
		}
		if got, _ := options["BinaryName"].(string); got != h.Binary {
			return fmt.Errorf("the daemon would run %q for the handler %q, want %q", got, h.Name, h.Binary)
		}
	}
	return nil
}
