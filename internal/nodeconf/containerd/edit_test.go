package containerd

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

const pattern = "/etc/containerd/conf.d/99-nvidia*.toml"

func importArgs() map[string]string { return map[string]string{argPattern: pattern, argVersion: "3"} }

func TestImportsEdit(t *testing.T) {
	line := `imports = ["` + pattern + `"]`
	tests := []struct {
		name   string
		before string
		after  string
	}{
		{"absent or empty: version too", "", "version = 3\n" + line + "\n"},
		{"comments only", "# c\n", "# c\nversion = 3\n" + line + "\n"},
		{"comment without final newline", "# c", "# c\nversion = 3\n" + line},
		{"after the version line", "version = 2\nroot = \"/x\"\n", "version = 2\n" + line + "\nroot = \"/x\"\n"},
		{"version line with comment", "version = 2 # two\n[a]\n", "version = 2 # two\n" + line + "\n[a]\n"},
		{"version last without newline", "version = 2", "version = 2\n" + line},
		{"no version: before the first key", "# c\nroot = \"/x\"\n", "# c\n" + line + "\nroot = \"/x\"\n"},
		{"only tables", "\n  [a]\n b = 1\n", "\n" + line + "\n  [a]\n b = 1\n"},
		{"empty list", "version = 2\nimports = []\n", "version = 2\nimports = [\"" + pattern + "\",]\n"},
		{"list with one", "version = 2\nimports = [\"a\"]\n", "version = 2\nimports = [\"a\", \"" + pattern + "\"]\n"},
		{"trailing comma and comment", "version = 2\nimports = [\n 'a', # x\n]\n", "version = 2\nimports = [\n 'a', \"" + pattern + "\", # x\n]\n"},
		{"quoted key", "\"imports\" = ['a']\nversion = 2\n", "\"imports\" = ['a', \"" + pattern + "\"]\nversion = 2\n"},
		{"brackets in strings and comments", "a = \"]#[\" # [\nimports = [\"]\", '#']\n", "a = \"]#[\" # [\nimports = [\"]\", '#', \"" + pattern + "\"]\n"},
		{"multi-line strings", "a = \"\"\"\n[x]\nimports = [1]\n\"\"\"\nversion = 2\n", "a = \"\"\"\n[x]\nimports = [1]\n\"\"\"\nversion = 2\n" + line + "\n"},
		{"line ends kept", "version = 2\r\n[a]\r\n", "version = 2\r\n" + line + "\r\n[a]\r\n"},
		{"imports in a table is another key", "version = 2\n[a]\nimports = []\n", "version = 2\n" + line + "\n[a]\nimports = []\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := importsEditor{}.Apply(importArgs(), []byte(tt.before), true)
			if err != nil || string(got) != tt.after {
				t.Fatalf("Apply = %q, %v; want %q", got, err, tt.after)
			}
			again, err := importsEditor{}.Apply(importArgs(), got, true)
			if err != nil || !bytes.Equal(again, got) {
				t.Errorf("second Apply = %q, %v; want no change", again, err)
			}
			back, _, err := importsEditor{}.Revert(importArgs(), got)
			if err != nil || (string(back) != tt.before && !strings.Contains(tt.after, "version = 3")) {
				t.Errorf("Revert = %q, %v; want %q", back, err, tt.before)
			}
		})
	}
}

func TestImportsEditRefuses(t *testing.T) {
	for _, before := range []string{"imports = \"a\"\n", "imports = [1]\n", "imports = [\n", "=\n", "version = 2\nversion = 2\n"} {
		if got, err := (importsEditor{}).Apply(importArgs(), []byte(before), true); err == nil {
			t.Errorf("Apply(%q) = %q, want an error", before, got)
		}
	}
}

// TestRevertAfterOthers takes our edit out of files that somebody else changed since.
func TestRevertAfterOthers(t *testing.T) {
	tests := []struct {
		name, now, want string
	}{
		{"line moved", "root = \"/x\"\nimports = [\"" + pattern + "\"]\n[a]\n", "root = \"/x\"\n[a]\n"},
		{"others added after us", "imports = [\"a\", \"" + pattern + "\", \"b\"]\n", "imports = [\"a\", \"b\"]\n"},
		{"others only after us", "imports = [\"" + pattern + "\", \"b\"]\n", "imports = [\"b\"]\n"},
		{"already gone", "imports = [\"b\"]\n", "imports = [\"b\"]\n"},
		{"no imports any more", "version = 2\n", "version = 2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, exists, err := importsEditor{}.Revert(importArgs(), []byte(tt.now))
			if err != nil || !exists || string(got) != tt.want {
				t.Errorf("Revert = %q, %v, %v; want %q", got, exists, err, tt.want)
			}
		})
	}
}

func blockArgs() map[string]string {
	return map[string]string{argVersion: "2", argTables: "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"x\"\n"}
}

// FuzzImports checks on any valid TOML: the edit adds exactly our pattern, is made
// once, and is taken out to the byte.
func FuzzImports(f *testing.F) {
	for _, seed := range []string{
		"", "#", "version = 2\n", "version = 2", "imports = []", "imports=[\r\n'a'\r\n,]\r\n", "a.b = 1\n[c]\n", "a = '''\n'''''\nimports = [\"x\"] # y",
		"a = {b = [1, {c = \"]\"}]}\nimports = [ ]\n", "[[a]]\nb = 1\n", "version = 2\r\n", " imports = [ 'a' , 'b' ] ", "a = \"\\\"\"\n", "imports = [\"\"]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		args := importArgs()
		after, err := importsEditor{}.Apply(args, before, true)
		if err != nil || bytes.Equal(after, before) {
			return
		}
		b, _ := parse("", before)
		a, err := parse("", after)
		if err != nil {
			t.Fatalf("result is not TOML: %v\n%q", err, after)
		}
		imports, _ := a.imports()
		if len(imports) == 0 || imports[len(imports)-1] != pattern {
			t.Fatalf("imports = %q", imports)
		}
		delete(a.top, "imports")
		delete(b.top, "imports")
		if _, had := b.top["version"]; !had && len(b.top) == 0 {
			delete(a.top, "version")
		}
		if !reflect.DeepEqual(a.top, b.top) {
			t.Fatalf("other keys changed: %v -> %v", b.top, a.top)
		}
		if again, err := (importsEditor{}).Apply(args, after, true); err != nil || !bytes.Equal(again, after) {
			t.Fatalf("second Apply = %q, %v", again, err)
		}
	})
}

// FuzzBlock checks on any valid TOML that appending our tables adds exactly them and
// that taking them out restores the bytes.
func FuzzBlock(f *testing.F) {
	for _, seed := range []string{"", "#", "version = 2\n", "version = 2", "[a]\r\nb=1\r\n", "[a]\r\nb=1", "x = 1\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n", blockBegin} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		if bytes.Contains(before, []byte(blockBegin)) || bytes.Contains(before, []byte(blockEnd)) {
			return
		}
		args := blockArgs()
		after, err := blockEditor{}.Apply(args, before, true)
		if err != nil {
			return
		}
		if _, err := parse("", after); err != nil {
			t.Fatalf("result is not TOML: %v\n%q", err, after)
		}
		back, _, err := blockEditor{}.Revert(args, after)
		if err != nil || !bytes.Equal(back, before) {
			t.Fatalf("Revert(Apply(%q)) = %q, %v", before, back, err)
		}
		if again, err := (blockEditor{}).Apply(args, after, true); err != nil || !bytes.Equal(again, after) {
			t.Fatalf("second Apply = %q, %v", again, err)
		}
	})
}

// TestEditorsAreKnown fails when a step could name an edit that an undo cannot take back.
func TestEditorsAreKnown(t *testing.T) {
	known := Editors()
	for _, name := range []string{EditImports, EditBlock} {
		if known[name] == nil {
			t.Errorf("edit %q has no editor", name)
		}
	}
}
