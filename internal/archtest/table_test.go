package archtest

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// TestTablesAreComplete: variants are rows of a visible table, and none is missing.
func TestTablesAreComplete(t *testing.T) {
	var checks, commands, operands []string
	mentioned := map[string]map[string]bool{} // file -> identifiers in it
	imported := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		switch {
		case s.dir() == "internal/check":
			checks = append(checks, functions(s, isCheck)...)
		case s.dir() == "internal/cli/node" && path.Base(s.path) != "root.go":
			commands = append(commands, functions(s, isCommand)...)
		case path.Dir(s.dir()) == "internal/operand" && path.Base(s.dir()) != "all":
			operands = append(operands, s.dir())
		case s.dir() == "internal/operand/all":
			for _, i := range s.imports() {
				imported[strings.TrimPrefix(i, modulePath)] = true
			}
		}
		mentioned[s.path] = identifiers(s)
	}
	for _, c := range checks {
		if !mentioned["internal/check/check.go"][c] {
			t.Errorf("check %s is not in the table of internal/check/check.go", c)
		}
	}
	for _, c := range commands {
		if !mentioned["internal/cli/node/root.go"][c] {
			t.Errorf("command %s is not in the table of internal/cli/node/root.go", c)
		}
	}
	for _, o := range operands {
		if !imported[o] && len(imported) > 0 {
			t.Errorf("operand %s is not in the table of internal/operand/all", o)
		}
	}
	if len(checks) == 0 || len(commands) == 0 {
		t.Errorf("found %d checks and %d commands: the test looks in the wrong place", len(checks), len(commands))
	}
}

// functions returns the names of functions that fit.
func functions(s source, fits func(*ast.FuncDecl) bool) []string {
	var out []string
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && fits(f) {
			out = append(out, f.Name.Name)
		}
	}
	return out
}

// isCheck: func(facts.Node) *v1alpha1.Finding.
func isCheck(f *ast.FuncDecl) bool {
	p, r := f.Type.Params, f.Type.Results
	return len(p.List) == 1 && selector(p.List[0].Type) == "facts.Node" && r != nil && len(r.List) == 1 && selector(r.List[0].Type) == "v1alpha1.Finding"
}

// isCommand: func New…Command().
func isCommand(f *ast.FuncDecl) bool {
	return strings.HasPrefix(f.Name.Name, "New") && strings.HasSuffix(f.Name.Name, "Command")
}

// selector returns "package.Name" of a type, pointers taken off.
func selector(e ast.Expr) string {
	if p, ok := e.(*ast.StarExpr); ok {
		e = p.X
	}
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// identifiers returns the identifiers that a file mentions outside declarations' names.
func identifiers(s source) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			out[id.Name] = true
		}
		return true
	})
	return out
}
