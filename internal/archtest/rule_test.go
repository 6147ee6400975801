package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Budgets in lines. The aim is lower: 400 for a file, 40 for a function.
const (
	maxFile     = 600
	maxTestFile = 800
	maxFunction = 100
	maxMain     = 60
	maxMakefile = 150
	maxReadme   = 150
)

// TestBudgets: nothing grows over its budget.
func TestBudgets(t *testing.T) {
	for _, s := range sources(t) {
		limit := maxFile
		switch {
		case s.generated():
			continue
		case s.test():
			limit = maxTestFile
		case path.Base(s.path) == "main.go" && !strings.HasPrefix(s.path, "lab/components/"):
			limit = maxMain
		}
		if s.lines > limit {
			t.Errorf("%s has %d lines, want at most %d", s.path, s.lines, limit)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if ok && f.Body != nil && !s.test() { // a table of a test is as long as its subject has cases
				if lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line; lines > maxFunction {
					t.Errorf("%s: function %s has %d lines, want at most %d", s.at(f), f.Name.Name, lines, maxFunction)
				}
			}
			return true
		})
	}
	walk(t, func(p string, data []byte) {
		limit, ok := map[string]int{"Makefile": maxMakefile, "README.md": maxReadme}[p]
		if n := strings.Count(string(data), "\n"); ok && n > limit {
			t.Errorf("%s has %d lines, want at most %d", p, n, limit)
		}
	})
}

// product says whether the product's own rules hold for a file: not in tests, in
// the lab and in the simulated machine.
func product(s source) bool {
	l, _ := layerOf(s.dir())
	return !s.test() && l != laboratory && l != simulation && l != outside
}

// TestHostPathsStandInNames: a path of the host is a name shared with the outside
// world, and stands in package names.
func TestHostPathsStandInNames(t *testing.T) {
	host := regexp.MustCompile(`(^|[\s"'=:])/(etc|var|run|proc|sys|dev|usr|lib|lib64|opt|home|bin|sbin|host|boot|root)(/|\b)`)
	for _, s := range sources(t) {
		// The launcher is a program of its own, without any of the product's packages.
		if !product(s) || s.dir() == "internal/names" || s.dir() == "cmd/nvidia-runtime-shim" || s.generated() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && host.MatchString(strings.ReplaceAll(strings.Trim(lit.Value, "`\""), ownProc, "")) && !explains(lit.Value) {
				t.Errorf("%s: host path in %s: give it a name in internal/names", s.at(lit), lit.Value)
			}
			return true
		})
	}
}

// ownProc is where a process finds itself, on a host or in a container.
const ownProc = "/proc/self/"

// explains says whether a string is text for people that happens to hold a path: it
// has words around it.
func explains(literal string) bool { return strings.Count(literal, " ") >= 3 }

// TestNoHiddenState: no init functions, no package variables but errors and
// embedded files, no context out of nowhere, no printing, no reading of the clock
// or the environment below the command line.
func TestNoHiddenState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: init function: construct it where it is used", s.at(d))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					globals(t, s, d)
				}
			}
		}
		if !product(s) {
			continue
		}
		edge := strings.HasPrefix(s.path, "cmd/") || strings.HasPrefix(s.path, "internal/cli/")
		for call, allowed := range map[string]bool{
			"context.Background": path.Base(s.path) == "main.go", "context.TODO": false,
			"fmt.Print": false, "fmt.Println": false, "fmt.Printf": false,
			"time.Now": edge, "time.Sleep": false, "os.Getenv": edge,
		} {
			for _, at := range uses(s, call) {
				if !allowed {
					t.Errorf("%s: %s is not used here: it is handed in", at, call)
				}
			}
		}
	}
}

// globals reports package variables that could change.
func globals(t *testing.T, s source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for _, n := range v.Names {
			embedded := d.Doc != nil && slices.ContainsFunc(d.Doc.List, isEmbed) || v.Doc != nil && slices.ContainsFunc(v.Doc.List, isEmbed)
			// version is set by the linker; it has no other way in.
			if n.Name == "_" || embedded || isPattern(v) || excused(d, v) || strings.HasPrefix(strings.ToLower(n.Name), "err") || n.Name == "version" && s.file.Name.Name == "main" {
				continue
			}
			t.Errorf("%s: package variable %s: return it from a function, or hand it in", s.at(n), n.Name)
		}
	}
}

// isPattern says whether a variable is a compiled regular expression, which nobody changes.
func isPattern(v *ast.ValueSpec) bool {
	if len(v.Values) != 1 {
		return false
	}
	call, ok := v.Values[0].(*ast.CallExpr)
	return ok && selector(call.Fun) == "regexp.MustCompile"
}

// excused says whether the linter was told why this variable has to be one.
func excused(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, c := range []*ast.CommentGroup{d.Doc, v.Doc, v.Comment} {
		if c != nil && slices.ContainsFunc(c.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//nolint:gochecknoglobals // ") }) {
			return true
		}
	}
	return false
}

// isEmbed says whether a comment embeds a file.
func isEmbed(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }

// TestEverythingIsExplained: each package and each exported name has a comment.
func TestEverythingIsExplained(t *testing.T) {
	explained := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		explained[s.dir()] = explained[s.dir()] || s.file.Doc != nil
		if s.generated() || strings.HasPrefix(s.path, "lab/components/") {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: exported %s has no comment", s.at(d), name)
			}
		}
	}
	for dir, ok := range explained {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// undocumented returns the exported names of a declaration without a comment.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !implementsObvious(d.Name.Name) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil // a comment on the group covers it
		}
		var out []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil {
					out = append(out, spec.Name.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && spec.Doc == nil && spec.Comment == nil {
					out = append(out, spec.Names[0].Name)
				}
			}
		}
		return out
	}
	return nil
}

// exportedReceiver says whether a function is one, or a method of an exported type.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// implementsObvious are methods of well-known interfaces, whose meaning is theirs.
func implementsObvious(name string) bool {
	return slices.Contains([]string{"Error", "Unwrap", "String", "Close", "MarshalJSON", "UnmarshalJSON", "Len", "Less", "Swap"}, name)
}

// TestWords: what does not belong into the tree. The patterns are written so that
// they do not match themselves.
func TestWords(t *testing.T) {
	rules := []struct {
		// name says what the rule is about, ext on which files it looks ("": all text)
		name, ext string
		pattern   *regexp.Regexp
	}{
		{"work left undone", ".go", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)},
		{"error text that only says that it failed", ".go", regexp.MustCompile(`Errorf\("[Ff]ailed ` + `to`)},
		{"path of a developer's machine", "", regexp.MustCompile(`(/wo` + `rk/|\.\./sha` + `red)`)},
		{"numbered problem without its words", "", regexp.MustCompile(`\bP[0-9][0-9]\b`)},
	}
	walk(t, func(p string, data []byte) {
		if strings.HasPrefix(p, "internal/archtest/") || strings.ContainsRune(string(data), 0) {
			return
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, r := range rules {
				if (r.ext == "" || path.Ext(p) == r.ext) && r.pattern.MatchString(line) && !strings.HasSuffix(p, ".sum") {
					t.Errorf("%s: %s: %s", fmt.Sprintf("%s:%d", p, i+1), r.name, strings.TrimSpace(line))
				}
			}
		}
	})
}
