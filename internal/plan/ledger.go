package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// LedgerVersion is the version of the ledger's format.
const LedgerVersion = 1

// InlineLimit is the size in bytes up to which prior content lies in the ledger
// itself; larger content lies beside it under its hash.
const InlineLimit = 256 << 10

// Ledger is what we changed on a host and what was there before. An entry is
// written before the change it describes: what the path is now tells which of
// the two is true.
type Ledger struct {
	// Version is LedgerVersion.
	Version int `json:"version"`
	// Entries in the order in which the paths were first changed.
	Entries []Entry `json:"entries"`
}

// Entry is one path that we changed.
type Entry struct {
	// Path is absolute, as the host sees it.
	Path string `json:"path"`
	// Kind of the step.
	Kind Kind `json:"kind"`
	// Group is whose change it is.
	Group string `json:"group,omitempty"`
	// Why says what it is for.
	Why string `json:"why,omitempty"`
	// Edit is the edit that we made to somebody else's file.
	Edit *Edit `json:"edit,omitempty"`
	// Prior is what was there before, with everything that restores it.
	Prior State `json:"prior"`
	// Wrote is what we put there, without its content.
	Wrote State `json:"wrote"`
	// Also are earlier states of ours, until a later write is known to be done.
	Also []State `json:"also,omitempty"`
}

// Ours says whether s is what we put there.
func (e Entry) Ours(s State) bool {
	if s.Same(e.Wrote) {
		return true
	}
	return slices.ContainsFunc(e.Also, s.Same)
}

// Find returns the entry of a path.
func (l Ledger) Find(path string) (Entry, bool) {
	i := slices.IndexFunc(l.Entries, func(e Entry) bool { return e.Path == path })
	if i < 0 {
		return Entry{}, false
	}
	return l.Entries[i], true
}

// Begin returns the ledger with the change recorded, as it must be on disk before
// the change is made. Changes of no path are not recorded.
func (l Ledger) Begin(c Change) Ledger {
	out := Ledger{Version: LedgerVersion, Entries: slices.Clone(l.Entries)}
	if !c.Kind.onDisk() || !c.Effective() || c.Drop {
		return out
	}
	e := Entry{Path: c.Path, Kind: c.Kind, Group: c.Group, Why: c.Why, Edit: c.Edit, Prior: c.From, Wrote: bare(c.To)}
	if c.Prior != nil {
		e.Prior = *c.Prior
	}
	e.Prior = storable(e.Prior)
	i := slices.IndexFunc(out.Entries, func(o Entry) bool { return o.Path == c.Path })
	if i < 0 {
		out.Entries = append(out.Entries, e)
		return out
	}
	old := out.Entries[i]
	if old.Ours(c.From) && !c.From.Same(e.Wrote) {
		e.Also = []State{bare(c.From)}
	}
	out.Entries[i] = e
	return out
}

// Done returns the ledger after the change was made and verified.
func (l Ledger) Done(c Change) Ledger {
	out := Ledger{Version: LedgerVersion, Entries: slices.Clone(l.Entries)}
	i := slices.IndexFunc(out.Entries, func(o Entry) bool { return o.Path == c.Path })
	switch {
	case i < 0:
	case c.Drop:
		out.Entries = slices.Delete(out.Entries, i, i+1)
	default:
		out.Entries[i].Also = nil
	}
	return out
}

// Blobs returns the hashes of prior contents that lie beside the ledger.
func (l Ledger) Blobs() []string {
	var out []string
	for _, e := range l.Entries {
		if e.Prior.Blob {
			out = append(out, e.Prior.Hash)
		}
	}
	return out
}

// Format renders the ledger as the content of its file.
func (l Ledger) Format() ([]byte, error) {
	l.Version = LedgerVersion
	if l.Entries == nil {
		l.Entries = []Entry{}
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding ledger: %w", err)
	}
	return append(data, '\n'), nil
}

// ParseLedger reads the content of a ledger file; empty input is an empty ledger.
// It fails, naming the entry, for text that Format cannot have written.
func ParseLedger(data []byte) (Ledger, error) {
	l := Ledger{Version: LedgerVersion}
	if len(bytes.TrimSpace(data)) == 0 {
		return l, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	l = Ledger{}
	if err := dec.Decode(&l); err != nil {
		return Ledger{}, fmt.Errorf("decoding ledger: %w", err)
	}
	if l.Version != LedgerVersion {
		return Ledger{}, fmt.Errorf("ledger has format version %d, want %d: it was written by another release", l.Version, LedgerVersion)
	}
	seen := map[string]bool{}
	for i, e := range l.Entries {
		if err := checkEntry(e); err != nil {
			return Ledger{}, fmt.Errorf("ledger entry %d (%q): %w", i+1, e.Path, err)
		}
		if seen[e.Path] {
			return Ledger{}, fmt.Errorf("ledger entry %d: path %q stands there twice", i+1, e.Path)
		}
		seen[e.Path] = true
	}
	return l, nil
}

// checkEntry refuses entries that an undo could not carry out.
func checkEntry(e Entry) error {
	if !clean(e.Path) || strings.ContainsRune(e.Path, 0) {
		return fmt.Errorf("path is not absolute and clean")
	}
	if !e.Kind.onDisk() {
		return fmt.Errorf("kind %q leaves nothing to undo", e.Kind)
	}
	for _, s := range []State{e.Prior, e.Wrote} {
		switch s.Type {
		case TypeAbsent, TypeDirectory, TypeSymlink, TypeDevice, TypeFile:
		case TypeOther:
			return fmt.Errorf("state of type %q cannot be restored", s.Type)
		default:
			return fmt.Errorf("unknown type %q", s.Type)
		}
	}
	if e.Prior.Type == TypeFile && !e.Prior.Blob && HashBytes(e.Prior.Content) != e.Prior.Hash {
		return fmt.Errorf("prior content does not match its hash sha256:%.12s", e.Prior.Hash)
	}
	return nil
}

// bare returns s without its content.
func bare(s State) State {
	s.Content, s.Blob, s.RealPath, s.MTime = nil, false, "", 0
	return s
}

// storable returns s with its content inside or marked as a blob.
func storable(s State) State {
	s.RealPath, s.Entries = "", 0
	if s.Type == TypeFile && s.Size > InlineLimit {
		s.Content, s.Blob = nil, true
	}
	return s
}
