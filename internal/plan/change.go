package plan

import (
	"fmt"
	"strings"
)

// Op is what a change does.
type Op string

// The operations.
const (
	// OpKeep changes nothing.
	OpKeep Op = "keep"
	// OpCreate makes something that is not there.
	OpCreate Op = "create"
	// OpChange changes something that is there.
	OpChange Op = "change"
	// OpRemove removes something.
	OpRemove Op = "remove"
	// OpRun loads a module, starts or restarts a unit.
	OpRun Op = "run"
)

// Change is one difference between what is wanted and what was seen.
type Change struct {
	// Op is what will be done.
	Op Op
	// Foreign says that somebody else changed what we had written.
	Foreign bool
	// Kind of the step.
	Kind Kind
	// Path is what will be written: the file itself when the step named a link to it.
	Path string
	// Via is the link that the step named, when Path is what it leads to.
	Via string
	// From is what was seen, To what will be there.
	From State
	To   State
	// Source is where large content comes from.
	Source *Source
	// Edit is the edit that To results from.
	Edit *Edit
	// Prior is what the ledger remembers for an undo.
	Prior *State
	// Because are the changed paths that make a restart necessary.
	Because []string
	// Group and Why as in the step.
	Group string
	Why   string
	// Note says what is special about this change.
	Note string
	// Drop says that the ledger forgets the path once the change is done.
	Drop bool
}

// Changes is an ordered list of changes.
type Changes []Change

// Symbol returns = keep, + create, ~ change or run, - remove, or ! changed by someone else.
func (c Change) Symbol() string {
	if c.Foreign {
		return "!"
	}
	switch c.Op {
	case OpKeep:
		return "="
	case OpCreate:
		return "+"
	case OpChange, OpRun:
		return "~"
	case OpRemove:
		return "-"
	}
	return "?"
}

// Effective says whether carrying the change out does anything to the host.
func (c Change) Effective() bool { return c.Op != OpKeep }

// String returns the change as one line: symbol, kind, path, states and reason.
func (c Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-9s %s", c.Symbol(), c.Kind, c.Path)
	switch {
	case c.Op == OpRun && len(c.Because) > 0:
		fmt.Fprintf(&b, " because of %s", strings.Join(c.Because, ", "))
	case c.Op == OpCreate && c.To.Type != "":
		fmt.Fprintf(&b, " [%s]", c.To)
	case c.Op == OpChange:
		fmt.Fprintf(&b, " [%s -> %s]", c.From, c.To)
	}
	if c.Why != "" {
		b.WriteString(" # " + c.Why)
	}
	if c.Note != "" {
		b.WriteString(" (" + c.Note + ")")
	}
	return b.String()
}

// Text returns the lines that a change of a text file removes and adds, prefixed
// with "    - " and "    + "; empty for other changes and binary content.
func (c Change) Text() string {
	if c.To.Type != TypeFile || c.Source != nil || c.Op == OpKeep || !isText(c.From.Content) || !isText(c.To.Content) {
		return ""
	}
	from, to := lines(c.From.Content), lines(c.To.Content)
	start := 0
	for start < len(from) && start < len(to) && from[start] == to[start] {
		start++
	}
	end := 0
	for end < len(from)-start && end < len(to)-start && from[len(from)-1-end] == to[len(to)-1-end] {
		end++
	}
	var b strings.Builder
	for _, l := range from[start : len(from)-end] {
		b.WriteString("    - " + l + "\n")
	}
	for _, l := range to[start : len(to)-end] {
		b.WriteString("    + " + l + "\n")
	}
	return b.String()
}

// Effective returns the changes that do something.
func (cs Changes) Effective() Changes {
	var out Changes
	for _, c := range cs {
		if c.Effective() {
			out = append(out, c)
		}
	}
	return out
}

// Settled says that there is nothing to do.
func (cs Changes) Settled() bool { return len(cs.Effective()) == 0 }

// String returns one line a change; text shown below changed text files.
func (cs Changes) String() string {
	var b strings.Builder
	for _, c := range cs {
		b.WriteString(c.String() + "\n" + c.Text())
	}
	return b.String()
}

// isText says whether b can be shown as lines.
func isText(b []byte) bool { return !strings.ContainsRune(string(b), 0) }

// lines splits b into lines and makes carriage returns visible.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	out := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "\r", `\r`)
	}
	return out
}
