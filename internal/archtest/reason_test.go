package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write generated files anew")

const reasonsDoc = "docs/reasons.md"

const reasonsHead = `# Reasons

Every reason that a condition, a gate, a finding, an event or a report can carry, with when it surfaces and what to do. This page
is made from the constants in the code: ` + "`go test ./internal/archtest -update`" + ` writes it, and the same test fails when it is behind.

`

// reason is a documented constant.
type reason struct{ value, text, where string }

// TestReasonsAreDocumented: every reason says when it surfaces, no two mean
// different things in the same file, and the page for people has them all.
func TestReasonsAreDocumented(t *testing.T) {
	var reasons []reason
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(path.Base(s.path), "reason") || s.dir() != "api/v1alpha1" && s.dir() != "internal/fault" && s.dir() != "api/v1" {
			continue
		}
		for _, d := range s.file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				reasons = append(reasons, reasonsOf(t, s, g)...)
			}
		}
	}
	if len(reasons) < 20 {
		t.Fatalf("only %d reasons found: the test looks in the wrong place", len(reasons))
	}
	want := reasonsHead + table(reasons)
	if *update {
		if err := os.WriteFile(path.Join(rootDir, reasonsDoc), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path.Join(rootDir, reasonsDoc))
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the constants say (%v): run go test ./internal/archtest -update", reasonsDoc, err)
	}
}

// TestUnsupportedFieldsAreDocumented: the page of ClusterPolicy lists what is
// accepted and not implemented, and nothing that is.
func TestUnsupportedFieldsAreDocumented(t *testing.T) {
	data, err := os.ReadFile(path.Join(rootDir, "docs/clusterpolicy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(data), "## Accepted and not implemented yet\n")
	var want strings.Builder
	for _, s := range sources(t) {
		if s.path != "internal/compat/unsupported.go" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, `"spec.`) {
				fmt.Fprintf(&want, "- `%s`\n", strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	if want.Len() == 0 || list != want.String() {
		t.Errorf("docs/clusterpolicy.md ends with the list:\n%swant:\n%s", list, want.String())
	}
}

// TestEveryFindingHasAHost: each thing that can be wrong with a node is shown by a
// host in test/hosts/inspect.
func TestEveryFindingHasAHost(t *testing.T) {
	var hosts strings.Builder
	var findings []reason
	walk(t, func(p string, data []byte) {
		if path.Dir(p) == "test/hosts/inspect" {
			hosts.Write(data)
		}
	})
	for _, s := range sources(t) {
		if s.path == "api/v1alpha1/reason_finding.go" {
			for _, d := range s.file.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
					findings = append(findings, reasonsOf(t, s, g)...)
				}
			}
		}
	}
	if len(findings) == 0 {
		t.Fatal("no findings in api/v1alpha1/reason_finding.go: the test looks in the wrong place")
	}
	for _, f := range findings {
		if !strings.Contains(hosts.String(), fmt.Sprintf(`"reason": %q`, f.value)) {
			t.Errorf("no host in test/hosts/inspect shows finding %s", f.value)
		}
	}
}

// reasonsOf returns the reasons of a declaration: constants named Reason… or
// Finding…, each with a comment that says when it surfaces or is set.
func reasonsOf(t *testing.T, s source, g *ast.GenDecl) []reason {
	var out []reason
	for _, spec := range g.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			continue
		}
		name := v.Names[0].Name
		lit, ok := v.Values[0].(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || !strings.HasPrefix(name, "Reason") && !strings.HasPrefix(name, "Finding") {
			continue
		}
		text, found := strings.CutPrefix(strings.Join(strings.Fields(v.Doc.Text()), " "), name+": ")
		if !found || !strings.HasPrefix(text, "surfaces ") && !strings.HasPrefix(text, "set ") {
			t.Errorf("%s: reason %s does not say when it surfaces (\"%s: surfaces when ...\")", s.at(v), lit.Value, name)
			continue
		}
		out = append(out, reason{value: strings.Trim(lit.Value, `"`), text: text, where: s.path})
	}
	return out
}

// table renders the reasons by name; one that stands in two places is one row each
// unless the words are the same.
func table(reasons []reason) string {
	slices.SortStableFunc(reasons, func(a, b reason) int { return strings.Compare(a.value, b.value) })
	var b strings.Builder
	b.WriteString("| reason | meaning |\n|---|---|\n")
	last := ""
	for _, r := range reasons {
		if r.value == last {
			continue // the same condition, said by another process in its own words
		}
		last = r.value
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.value, strings.ToUpper(r.text[:1])+strings.ReplaceAll(r.text[1:], "|", `\|`))
	}
	return b.String()
}
