// Package fault is the one error type that carries what a person needs to act:
// a documented reason, where it was seen, and what would put it right. Decisions
// and effects return it; evidence, conditions and the command line print it.
// Values only: no I/O.
package fault

import (
	"errors"
	"strings"
)

// Fault is an error with a reason and a remedy.
type Fault struct {
	// Reason is a documented constant in CamelCase (see Reason*).
	Reason string
	// Where is the file, unit or socket concerned, with line and column when known.
	Where string
	// Message says what was seen.
	Message string
	// Remedy says what to do about it.
	Remedy string
	// Err is the cause, when there is one.
	Err error
}

// Error returns where, message, cause and remedy on one line.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Where != "" {
		b.WriteString(f.Where + ": ")
	}
	b.WriteString(f.Message)
	if f.Err != nil {
		b.WriteString(": " + f.Err.Error())
	}
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// ReasonOf returns the reason of the first Fault in err's chain, and def when
// there is none.
func ReasonOf(err error, def string) string {
	var f *Fault
	if errors.As(err, &f) && f.Reason != "" {
		return f.Reason
	}
	return def
}
