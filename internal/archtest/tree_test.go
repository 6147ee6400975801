package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	rootDir    = "../.."
	modulePath = "gpu-operator/"
)

// source is one parsed Go file of the tree.
type source struct {
	// path is relative to the root of the tree, with slashes.
	path string
	file *ast.File
	set  *token.FileSet
	// lines is the number of lines.
	lines int
}

// dir is the folder of the file.
func (s source) dir() string { return path.Dir(s.path) }

// test says whether the file is a test.
func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// generated says whether a tool wrote the file.
func (s source) generated() bool { return ast.IsGenerated(s.file) }

// at returns "path:line" of a node.
func (s source) at(n ast.Node) string {
	p := s.set.Position(n.Pos())
	return s.path + ":" + strconv.Itoa(p.Line)
}

// imports returns the import paths.
func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}

// sources parses every Go file below the root, the lab's included.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	walk(t, func(p string, data []byte) {
		if path.Ext(p) != ".go" {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, p, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("parsing %s: %v", p, err)
			return
		}
		out = append(out, source{path: p, file: f, set: set, lines: strings.Count(string(data), "\n")})
	})
	if len(out) < 50 {
		t.Fatalf("only %d Go files found below %s: the test looks in the wrong place", len(out), rootDir)
	}
	return out
}

// walk calls visit for every file of the tree that belongs to the project.
func walk(t *testing.T, visit func(p string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(rootDir, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p := filepath.ToSlash(strings.TrimPrefix(full, rootDir+"/"))
		if d.IsDir() {
			switch d.Name() {
			case ".git", "bin", "dist", "testdata", "node_modules":
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		visit(p, data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
