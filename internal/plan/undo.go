package plan

import (
	"fmt"
	"slices"
)

// Undo returns the changes that restore what the ledger remembers, last change
// first. Only what is still ours is restored: a file that somebody else changed
// since is left, or, where we own an edit only, loses just that edit. Every
// change drops its entry from the ledger.
func Undo(l Ledger, seen Observed, editors Editors) (Changes, error) {
	var out Changes
	gone := map[string]int{} // number of names that this undo removes from a directory
	for _, e := range slices.Backward(l.Entries) {
		from, ok := seen.Paths[e.Path]
		if !ok && e.Kind.onDisk() {
			return nil, fmt.Errorf("undoing %s %q: path was not looked at", e.Kind, e.Path)
		}
		c := undoEntry(e, from, gone[e.Path], editors)
		if c.Op == OpRemove {
			gone[parent(e.Path)]++
		}
		out = append(out, c)
	}
	return out, nil
}

// undoEntry returns the change that takes one entry back; gone counts the names
// that will have left the directory by then.
func undoEntry(e Entry, from State, gone int, editors Editors) Change {
	c := Change{Op: OpKeep, Kind: e.Kind, Path: e.Path, From: from, To: from, Group: e.Group, Why: "undo: " + e.Why, Edit: e.Edit, Drop: true}
	switch {
	case !e.Kind.onDisk():
		c.Note = "not undone: it has no prior state"
		return c
	case from.Same(e.Prior):
		return c
	case e.Ours(from) && from.Type == TypeDirectory && e.Prior.Type == TypeAbsent && from.Entries > gone:
		c.Foreign = true
		c.Note = fmt.Sprintf("left: the directory holds %d names that are not ours", from.Entries-gone)
		return c
	case e.Ours(from):
		c.To = e.Prior
		c.Op = opOf(from, e.Prior)
		return c
	case e.Kind == KindEdit && e.Edit != nil && from.Type == TypeFile:
		return undoEdit(c, e, editors)
	}
	c.Foreign = true
	c.Note = "left: changed by someone else since we wrote it"
	return c
}

// undoEdit takes only our own edit out of a file that others changed since.
func undoEdit(c Change, e Entry, editors Editors) Change {
	to, err := revert(*e.Edit, c.From, e.Prior, editors)
	if err != nil {
		c.Foreign = true
		c.Note = "left: changed by someone else, and our edit cannot be taken out: " + err.Error()
		return c
	}
	if to.Same(c.From) {
		return c
	}
	c.To = to
	c.Op = opOf(c.From, to)
	c.Note = "others changed the file since; only our edit is taken out"
	return c
}

// parent returns the directory of an absolute path.
func parent(p string) string {
	all := parents(p)
	if len(all) == 0 {
		return "/"
	}
	return all[len(all)-1]
}
