package containerd

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/plan"
)

// The names of the edits that this package makes to somebody else's files.
const (
	// EditImports adds one pattern to the root file's imports.
	EditImports = "containerd-imports"
	// EditBlock appends our tables, between two marker comments.
	EditBlock = "containerd-block"
	// EditTemplate appends the same to a distribution's template.
	EditTemplate = "containerd-template"
)

// Argument names of the edits.
const (
	argPattern = "pattern"
	argVersion = "version"
	argTables  = "tables"
)

const (
	blockBegin = "# >>> gpu-operator: NVIDIA runtime handlers (taken out on uninstall; do not edit in here)"
	blockEnd   = "# <<< gpu-operator"
)

// Editors are the editors of this package's edits, for plan.Diff and plan.Undo.
func Editors() plan.Editors {
	return plan.Editors{EditImports: importsEditor{}, EditBlock: blockEditor{}, EditTemplate: templateEditor{}}
}

// importsEditor adds args[pattern] to `imports`; into a file without any key it
// also puts `version`.
type importsEditor struct{}

// Apply implements plan.Editor.
func (importsEditor) Apply(args map[string]string, prev []byte, _ bool) ([]byte, error) {
	before, err := parse("", prev)
	if err != nil {
		return nil, err
	}
	list, err := before.imports()
	if err != nil {
		return nil, err
	}
	pattern := args[argPattern]
	if slices.Contains(list, pattern) {
		return prev, nil
	}
	d, err := scanTop(prev)
	if err != nil {
		return nil, err
	}
	next := insertImport(d, pattern, freshVersion(before, args))
	return next, checkImports(before, next, append(list, pattern), freshVersion(before, args))
}

// freshVersion returns the version line that a file without any key needs.
func freshVersion(t tree, args map[string]string) string {
	if len(t.top) > 0 {
		return ""
	}
	return args[argVersion]
}

// insertImport returns the document with the pattern added and, when version is
// set, a version line before it.
func insertImport(d document, pattern, version string) []byte {
	eol := lineEnd(d.data)
	quoted := quote(pattern)
	if s, ok := d.find("imports"); ok {
		lastEnd, _, err := scanList(d.data, s.valueStart, ']')
		if err == nil && lastEnd > 0 {
			return splice(d.data, lastEnd, ", "+quoted)
		}
		return splice(d.data, s.valueStart+1, quoted+",") // the comma tells a revert that the list was there
	}
	line := "imports = [" + quoted + "]"
	if version != "" {
		line = "version = " + version + eol + line
	}
	if s, ok := d.find("version"); ok {
		at := endOfLine(d.data, s.valueEnd)
		if at == len(d.data) {
			return splice(d.data, at, eol+line)
		}
		return splice(d.data, at+1, line+eol)
	}
	if len(d.statements) > 0 {
		return splice(d.data, d.statements[0].start, line+eol)
	}
	if d.bodyStart < len(d.data) {
		return splice(d.data, startOfLine(d.data, d.bodyStart), line+eol)
	}
	if len(d.data) > 0 && !bytes.HasSuffix(d.data, []byte("\n")) {
		return splice(d.data, len(d.data), eol+line)
	}
	return splice(d.data, len(d.data), line+eol)
}

// checkImports verifies by parsing that the edit did what it was to do, and no more.
func checkImports(before tree, next []byte, want []string, version string) error {
	after, err := parse("", next)
	if err != nil {
		return fmt.Errorf("the edited file would not be valid: %w", err)
	}
	got, err := after.imports()
	if err != nil || !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the edited file would import %q, want %q", got, want)
	}
	delete(after.top, "imports")
	if version != "" {
		delete(after.top, "version")
	}
	rest := map[string]any{}
	for k, v := range before.top {
		if k != "imports" {
			rest[k] = v
		}
	}
	if !reflect.DeepEqual(rest, after.top) {
		return fmt.Errorf("the edit would change keys that are not ours")
	}
	return nil
}

// Revert implements plan.Editor: it takes out the pattern, and the whole imports
// line when nothing else is in it.
func (importsEditor) Revert(args map[string]string, cur []byte) ([]byte, bool, error) {
	if _, err := parse("", cur); err != nil {
		return nil, false, err
	}
	d, err := scanTop(cur)
	if err != nil {
		return nil, false, err
	}
	s, ok := d.find("imports")
	if !ok {
		return cur, true, nil
	}
	next := removeImport(cur, s, quote(args[argPattern]))
	if bytes.Equal(next, cur) {
		return cur, true, nil
	}
	if _, err := parse("", next); err != nil {
		return nil, false, fmt.Errorf("the file would not be valid afterwards: %w", err)
	}
	return next, len(bytes.TrimSpace(next)) > 0 && !onlyVersion(next, args[argVersion]), nil
}

// onlyVersion says that nothing but the version line that we wrote is left.
func onlyVersion(data []byte, version string) bool {
	return version != "" && string(bytes.TrimSpace(data)) == "version = "+version
}

// removeImport takes one quoted pattern out of the imports statement s.
func removeImport(data []byte, s statement, quoted string) []byte {
	value := data[s.valueStart:s.valueEnd]
	at := bytes.Index(value, []byte(quoted))
	if at < 0 {
		return data
	}
	from, to := s.valueStart+at, s.valueStart+at+len(quoted)
	if sep := ", "; bytes.HasSuffix(data[:from], []byte(sep)) {
		return cut(data, from-len(sep), to)
	}
	if bytes.HasPrefix(data[to:s.valueEnd], []byte(",")) {
		after := bytes.TrimLeft(data[to+1:s.valueEnd], " \t")
		if string(after) == "]" || bytes.ContainsAny(after[:1], "#\r\n") {
			return cut(data, from, to+1)
		}
		return cut(data, from, s.valueEnd-len(after)) // others follow
	}
	if string(value) != "["+quoted+"]" {
		return cut(data, from, to)
	}
	start, end := startOfLine(data, s.start), endOfLine(data, s.valueEnd)
	switch {
	case end < len(data):
		return cut(data, start, end+1)
	case start > 0:
		eol := len(lineEnd(data))
		return cut(data, max(start-eol, 0), end)
	}
	return cut(data, start, end)
}

// blockEditor appends args[tables] between the markers at the end of the file.
type blockEditor struct{}

// Apply implements plan.Editor.
func (blockEditor) Apply(args map[string]string, prev []byte, _ bool) ([]byte, error) {
	bare, _, err := (blockEditor{}).Revert(args, prev)
	if err != nil {
		return nil, err
	}
	before, err := parse("", bare)
	if err != nil {
		return nil, err
	}
	eol := lineEnd(bare)
	body := blockBegin + "\n" + strings.TrimRight(args[argTables], "\n") + "\n" + blockEnd
	if v := freshVersion(before, args); v != "" {
		body = blockBegin + "\nversion = " + v + "\n" + strings.TrimRight(args[argTables], "\n") + "\n" + blockEnd
	}
	body = strings.ReplaceAll(body, "\n", eol)
	var next []byte
	if len(bare) > 0 && !bytes.HasSuffix(bare, []byte("\n")) {
		next = splice(bare, len(bare), eol+body)
	} else {
		next = splice(bare, len(bare), body+eol)
	}
	if _, err := parse("", next); err != nil {
		return nil, &fault.Fault{
			Reason: fault.ReasonRuntimeConfigInvalid, Message: "the file writes the tables that we have to extend inline ({ ... } or dotted keys), which TOML does not allow to be extended; it was not touched",
			Remedy: "write them as [plugins...] tables, or update containerd to 2.1 or later, where a drop-in file is enough",
		}
	}
	return next, checkTables(before, next, args)
}

// checkTables verifies by parsing that nothing but our own tables was added.
func checkTables(before tree, next []byte, args map[string]string) error {
	after, err := parse("", next)
	if err != nil {
		return err
	}
	ours, err := parse("", []byte(args[argTables]))
	if err != nil {
		return fmt.Errorf("our own tables: %w", err)
	}
	want := deepMerge(before.top, ours.top)
	if v := freshVersion(before, args); v != "" {
		want["version"] = after.top["version"]
	}
	if !reflect.DeepEqual(want, after.top) {
		return fmt.Errorf("the edit would change keys that are not ours")
	}
	return nil
}

// Revert implements plan.Editor: it takes out the markers and what is between them.
func (blockEditor) Revert(_ map[string]string, cur []byte) ([]byte, bool, error) {
	start := bytes.Index(cur, []byte(blockBegin))
	if start < 0 {
		return cur, true, nil
	}
	length := bytes.Index(cur[start:], []byte(blockEnd))
	if length < 0 {
		return nil, false, fmt.Errorf("the begin marker of our block is there, the end marker %q is not", blockEnd)
	}
	end := start + length + len(blockEnd)
	eol := lineEnd(cur)
	if bytes.HasPrefix(cur[end:], []byte(eol)) {
		end += len(eol)
	} else if start > 0 {
		start -= len(eol)
	}
	next := cut(cur, start, end)
	return next, len(next) > 0, nil
}

// splice inserts text into a copy of data.
func splice(data []byte, at int, text string) []byte {
	out := make([]byte, 0, len(data)+len(text))
	out = append(out, data[:at]...)
	out = append(out, text...)
	return append(out, data[at:]...)
}

// cut removes a range from a copy of data.
func cut(data []byte, from, to int) []byte {
	out := make([]byte, 0, len(data))
	out = append(out, data[:from]...)
	return append(out, data[to:]...)
}

// endOfLine returns the offset of the line feed at or after i, or len(data).
func endOfLine(data []byte, i int) int {
	if j := bytes.IndexByte(data[i:], '\n'); j >= 0 {
		return i + j
	}
	return len(data)
}

// startOfLine returns the offset of the first byte of the line that i is in.
func startOfLine(data []byte, i int) int { return bytes.LastIndexByte(data[:i], '\n') + 1 }
