package plan

// The states of an entry's path, as reported for each host change.
const (
	// StatusOurs: the path is as we left it, or our edit is still in the file.
	StatusOurs = "Ours"
	// StatusDrifted: somebody else changed it.
	StatusDrifted = "Drifted"
	// StatusMissing: somebody else removed it.
	StatusMissing = "Missing"
)

// The actions of an entry.
const (
	ActionCreated = "Created"
	ActionChanged = "Changed"
	ActionRemoved = "Removed"
)

// Status says whether the path of an entry is as we left it. A file of somebody
// else in which we own an edit is ours as long as the edit is in it.
func (e Entry) Status(seen State, editors Editors) string {
	if e.Ours(seen) {
		return StatusOurs
	}
	if seen.Type == TypeAbsent {
		return StatusMissing
	}
	if e.Edit != nil && seen.Type == TypeFile && seen.Content != nil {
		if editor, ok := editors[e.Edit.Name]; ok {
			next, err := editor.Apply(e.Edit.Args, seen.Content, true)
			if err == nil && HashBytes(next) == seen.Hash {
				return StatusOurs
			}
		}
	}
	return StatusDrifted
}

// Action says what we did to the path.
func (e Entry) Action() string {
	switch {
	case e.Prior.Type == TypeAbsent:
		return ActionCreated
	case e.Wrote.Type == TypeAbsent:
		return ActionRemoved
	}
	return ActionChanged
}
