package plan

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Defaults of permission bits for what is new.
const (
	defaultFileMode fs.FileMode = 0o644
	defaultDirMode  fs.FileMode = 0o755
)

// Options of Diff.
type Options struct {
	// Editors resolve the edits of steps and of the ledger.
	Editors Editors
	// Group is the operand whose ledger entries are taken back when no step wants
	// them any more; empty: none are.
	Group string
	// Leave are path prefixes whose entries stay, wanted or not.
	Leave []string
}

// Diff returns the changes that make the observed host what the steps want, in
// the order of the steps, followed by taking back what the ledger of the same
// group has and no step wants any more. It fails for a path that was not
// observed, that is of a kind we never touch, or whose edit cannot be made.
func Diff(steps []Step, seen Observed, l Ledger, o Options) (Changes, error) {
	var out Changes
	wanted := map[string]bool{}
	for _, s := range steps {
		c, err := diffStep(s, seen, l, o.Editors, out)
		if err != nil {
			return nil, fmt.Errorf("planning %s %q: %w", s.Kind, s.Path, err)
		}
		out = append(out, c)
		wanted[c.Path] = true
		wanted[s.Path] = true
	}
	if o.Group == "" {
		return out, nil
	}
	stale, err := stale(wanted, seen, l, o)
	if err != nil {
		return nil, err
	}
	return insertBeforeRestarts(out, stale), nil
}

// stale returns the changes that take back entries which nobody wants any more.
func stale(wanted map[string]bool, seen Observed, l Ledger, o Options) (Changes, error) {
	old := Ledger{Version: l.Version}
	for _, e := range l.Entries {
		keep := wanted[e.Path] || e.Group != o.Group
		for _, prefix := range o.Leave {
			keep = keep || e.Path == prefix || strings.HasPrefix(e.Path, strings.TrimSuffix(prefix, "/")+"/")
		}
		if !keep {
			old.Entries = append(old.Entries, e)
		}
	}
	return Undo(old, seen, o.Editors)
}

// insertBeforeRestarts puts extra changes before the restart that they cause and
// adds the effective ones to its reasons.
func insertBeforeRestarts(cs, extra Changes) Changes {
	at := len(cs)
	for i, c := range cs {
		if c.Kind == KindRestart {
			at = i
			break
		}
	}
	return slices.Concat(cs[:at], extra, cs[at:])
}

// diffStep returns the change of one step; before are the changes of earlier steps.
func diffStep(s Step, seen Observed, l Ledger, editors Editors, before Changes) (Change, error) {
	c := Change{Op: OpKeep, Kind: s.Kind, Path: s.Path, Group: s.Group, Why: s.Why, Source: s.Source, Edit: s.Edit}
	switch s.Kind {
	case KindModule:
		return running(c, seen.Modules[s.Path]), nil
	case KindUnit:
		return running(c, seen.Units[s.Path]), nil
	case KindRestart:
		for _, b := range before.Effective() {
			if slices.Contains(s.Because, b.Path) || (b.Via != "" && slices.Contains(s.Because, b.Via)) {
				c.Because = append(c.Because, b.Path)
			}
		}
		return running(c, len(c.Because) == 0), nil
	case KindFile, KindEdit, KindSymlink, KindDirectory, KindDevice, KindAbsent:
		return diffPath(c, s, seen, l, editors)
	}
	return c, fmt.Errorf("unknown kind %q", s.Kind)
}

// running turns c into a run unless it is already so.
func running(c Change, already bool) Change {
	if !already {
		c.Op = OpRun
	}
	return c
}

// diffPath returns the change of a step about a path.
func diffPath(c Change, s Step, seen Observed, l Ledger, editors Editors) (Change, error) {
	if !clean(s.Path) {
		return c, fmt.Errorf("path is not absolute and clean")
	}
	from, ok := seen.Paths[s.Path]
	if !ok {
		return c, fmt.Errorf("path was not looked at")
	}
	if from.Type == TypeOther {
		return c, fmt.Errorf("path is neither a file, a directory, a link nor a character device; nothing will be done to it")
	}
	if from.RealPath != "" && s.Kind == KindEdit {
		c.Path, c.Via, c.Note = from.RealPath, s.Path, "reached through the link "+s.Path
	}
	entry, known := l.Find(c.Path)
	to, prior, err := target(s, from, entry, known, editors)
	if err != nil {
		return c, err
	}
	c.From, c.To, c.Prior = from, to, prior
	if from.Same(to) {
		return c, nil
	}
	c.Op = opOf(from, to)
	if known && !entry.Ours(from) && !from.Same(entry.Prior) {
		c.Foreign = true
		c.Note = joinNote(c.Note, "changed by someone else since we wrote it; will be put right")
	}
	return c, nil
}

// target returns what the step wants at its path and what an undo has to restore.
func target(s Step, from State, e Entry, known bool, editors Editors) (State, *State, error) {
	prior := &from
	if known {
		prior = &e.Prior
	}
	switch s.Kind {
	case KindFile:
		to := FileState(s.Content, orMode(s.Mode, defaultFileMode))
		if s.Source != nil {
			to = State{Type: TypeFile, Mode: orMode(s.Mode, defaultFileMode), Hash: s.Source.Hash, Size: s.Source.Size}
		}
		return to, prior, notDirectory(from)
	case KindEdit:
		return targetEdit(s, from, e, known, editors)
	case KindSymlink:
		return State{Type: TypeSymlink, Target: s.Target, Mode: 0o777}, prior, notDirectory(from)
	case KindDirectory:
		if from.Type == TypeDirectory && (s.Implied || s.Mode == 0) {
			return from, prior, nil
		}
		if from.Type != TypeDirectory && from.Type != TypeAbsent {
			return from, nil, fmt.Errorf("a %s is in the way where a directory is needed", from.Type)
		}
		return State{Type: TypeDirectory, Mode: orMode(s.Mode, defaultDirMode)}, prior, nil
	case KindDevice:
		return State{Type: TypeDevice, Mode: orMode(s.Mode, 0o666), Major: s.Major, Minor: s.Minor}, prior, notDirectory(from)
	case KindAbsent:
		return State{Type: TypeAbsent}, prior, notDirectory(from)
	case KindModule, KindUnit, KindRestart:
	}
	return from, nil, fmt.Errorf("kind %q has no path", s.Kind)
}

// targetEdit resolves an edit on the observed bytes. An earlier edit of ours is
// taken out first, so that changed arguments do not leave the old edit behind.
func targetEdit(s Step, from State, e Entry, known bool, editors Editors) (State, *State, error) {
	if from.Type != TypeFile && from.Type != TypeAbsent {
		return from, nil, fmt.Errorf("a %s is in the way where a file is needed", from.Type)
	}
	base := from
	switch {
	case known && e.Ours(from):
		base = e.Prior
	case known && e.Edit != nil:
		reverted, err := revert(*e.Edit, from, e.Prior, editors)
		if err != nil {
			return from, nil, err
		}
		base = reverted
	}
	editor, ok := editors[s.Edit.Name]
	if !ok {
		return from, nil, fmt.Errorf("unknown edit %q", s.Edit.Name)
	}
	next, err := editor.Apply(s.Edit.Args, base.Content, base.Type == TypeFile)
	if err != nil {
		return from, nil, err
	}
	mode := base.Mode
	if base.Type == TypeAbsent {
		mode = orMode(s.Mode, defaultFileMode)
	}
	return FileState(next, mode), &base, nil
}

// revert returns state from without the edit; prior tells whether the file was there before us.
func revert(edit Edit, from, prior State, editors Editors) (State, error) {
	if from.Type != TypeFile {
		return from, nil
	}
	editor, ok := editors[edit.Name]
	if !ok {
		return from, fmt.Errorf("unknown edit %q in the ledger", edit.Name)
	}
	next, exists, err := editor.Revert(edit.Args, from.Content)
	if err != nil {
		return from, err
	}
	if !exists && prior.Type == TypeAbsent {
		return State{Type: TypeAbsent}, nil
	}
	to := FileState(next, from.Mode)
	to.UID, to.GID = from.UID, from.GID
	return to, nil
}

// opOf names the operation between two different states.
func opOf(from, to State) Op {
	switch {
	case from.Type == TypeAbsent:
		return OpCreate
	case to.Type == TypeAbsent:
		return OpRemove
	}
	return OpChange
}

// notDirectory refuses to replace a directory by anything else.
func notDirectory(from State) error {
	if from.Type == TypeDirectory {
		return fmt.Errorf("a directory is in the way")
	}
	return nil
}

// orMode returns m, or def when m is not set.
func orMode(m, def fs.FileMode) fs.FileMode {
	if m == 0 {
		return def
	}
	return m
}

// joinNote joins two notes.
func joinNote(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
