package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// layer is where a package stands.
type layer string

const (
	values     layer = "values"     // data and parsing: no I/O, no clients, no clock
	decisions  layer = "decisions"  // pure functions with reasons
	effects    layer = "effects"    // the only writers of the API and of hosts
	processes  layer = "processes"  // wire the above
	simulation layer = "simulation" // the simulated machine; nothing of the product imports it
	laboratory layer = "lab"        // a module of its own
	outside    layer = "outside"    // tests of the tree, pins
)

// layers maps folders to layers; the longest prefix counts. A folder that no row
// covers fails the test: a new package says where it stands.
func layers() map[string]layer {
	return map[string]layer{
		"api":              values,
		"internal/facts":   values,
		"internal/plan":    values,
		"internal/names":   values,
		"internal/fault":   values,
		"internal/release": values,

		"internal/gate":     decisions,
		"internal/status":   decisions,
		"internal/rollout":  decisions,
		"internal/compat":   decisions,
		"internal/nodeconf": decisions,
		"internal/check":    decisions,
		"internal/device":   decisions,
		"internal/operand":  decisions,

		"internal/cluster": effects,
		"internal/host":    effects,
		"internal/gpu":     effects,

		"internal/controller": processes,
		"internal/agent":      processes,
		"internal/cli":        processes,
		"cmd":                 processes,

		"sim":               simulation,
		"lab":               laboratory,
		"test":              outside,
		"deploy":            outside,
		"internal/archtest": outside,
	}
}

// mayImport says which layers a layer may build upon.
func mayImport() map[layer][]layer {
	return map[layer][]layer{
		values:     {values},
		decisions:  {values, decisions},
		effects:    {values, effects},
		processes:  {values, decisions, effects, processes, outside},
		simulation: {simulation},
		laboratory: {laboratory, values, simulation, decisions, processes},
		outside:    {values, decisions, effects, processes, outside},
	}
}

// layerOf returns the layer of a folder.
func layerOf(dir string) (layer, bool) {
	for p := dir; p != "." && p != "/"; p = parent(p) {
		if l, ok := layers()[p]; ok {
			return l, true
		}
	}
	return "", false
}

// parent returns the folder above.
func parent(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "."
	}
	return p[:i]
}

// TestImportsPointDown: a package imports its own layer or one below.
func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		from, ok := layerOf(s.dir())
		if !ok {
			t.Errorf("%s: folder %q stands in no layer: add a row to layers()", s.path, s.dir())
			continue
		}
		if s.test() {
			continue // tests may build what they test out of anything
		}
		for _, i := range s.imports() {
			dir, ours := strings.CutPrefix(i, modulePath)
			if !ours {
				continue
			}
			to, ok := layerOf(dir)
			if !ok {
				t.Errorf("%s imports %q, which stands in no layer", s.path, i)
				continue
			}
			if !slices.Contains(mayImport()[from], to) {
				t.Errorf("%s (%s) imports %q (%s): %s may import only %v", s.path, from, i, to, from, mayImport()[from])
			}
		}
	}
}

// impure are imports by which a value or a decision would reach the world.
func impure() []string {
	return []string{"context", "os", "os/exec", "net", "net/http", "syscall", "math/rand", "math/rand/v2", "io/ioutil", "log", "log/slog"}
}

// impurePrefixes are libraries of effects.
func impurePrefixes() []string {
	return []string{"k8s.io/client-go/", "sigs.k8s.io/controller-runtime", "google.golang.org/grpc", "golang.org/x/sys/", "github.com/fsnotify/"}
}

// onlyObjects says whether an import is of the client library for its interface of
// objects alone, which what an operand looks like is made of.
func onlyObjects(s source, imported string) bool {
	if imported != "sigs.k8s.io/controller-runtime/pkg/client" {
		return false
	}
	only := true
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "client" && sel.Sel.Name != "Object" {
				only = false
			}
		}
		return true
	})
	return only
}

// TestDecisionsArePure: values and decisions have no context, no I/O and no clock.
func TestDecisionsArePure(t *testing.T) {
	for _, s := range sources(t) {
		l, _ := layerOf(s.dir())
		if s.test() || l != values && l != decisions {
			continue
		}
		for _, i := range s.imports() {
			bad := slices.Contains(impure(), i)
			for _, p := range impurePrefixes() {
				bad = bad || strings.HasPrefix(i, p) && !onlyObjects(s, i)
			}
			if bad {
				t.Errorf("%s is in layer %s and imports %q: hand in what it needs as a value", s.path, l, i)
			}
		}
		for _, call := range []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After"} {
			for _, at := range uses(s, call) {
				t.Errorf("%s: %s in layer %s: time is a parameter", at, call, l)
			}
		}
	}
}

// uses returns the places where a selector (package.Name) is mentioned.
func uses(s source, selector string) []string {
	pkg, name, _ := strings.Cut(selector, ".")
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
			out = append(out, s.at(sel))
		}
		return true
	})
	return out
}
