package hostdiff

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is a lower layer.
type machine map[string]Entry

func (m machine) Entry(path string) (Entry, bool) { e, ok := m[path]; return e, ok }

func (m machine) Below(path string) []string {
	var out []string
	for p := range m {
		if strings.HasPrefix(p, path+"/") {
			out = append(out, p)
		}
	}
	return out
}

// entryOf is a file entry of some content.
func entryOf(content string) Entry {
	return Entry{Kind: "file", Mode: "0644", Owner: "0:0", Content: content}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	dir := Entry{Kind: "dir", Mode: "0755", Owner: "0:0"}
	gone := Entry{Kind: "whiteout", Mode: "0000", Owner: "0:0"}
	anew := Entry{Kind: "dir", Mode: "0755", Owner: "0:0", Opaque: true}
	lower := machine{"/etc": dir, "/etc/passwd": entryOf("p"), "/etc/containerd": dir, "/etc/containerd/certs": entryOf("c"), "/etc/containerd/config.toml": entryOf("t")}
	for name, tc := range map[string]struct {
		birth, now Manifest
		want       []string // printed changes
	}{
		"same":                           {Manifest{"/a": entryOf("1")}, Manifest{"/a": entryOf("1")}, nil},
		"new file":                       {Manifest{}, Manifest{"/a": entryOf("1")}, []string{"+ /a (file 0644 0:0 1)"}},
		"changed since birth":            {Manifest{"/a": entryOf("1")}, Manifest{"/a": entryOf("2")}, []string{"~ /a (file 0644 0:0 1 -> file 0644 0:0 2)"}},
		"gone since birth":               {Manifest{"/a": entryOf("1")}, Manifest{}, []string{"- /a (file 0644 0:0 1)"}},
		"copied up and changed":          {Manifest{}, Manifest{"/etc": dir, "/etc/passwd": entryOf("q")}, []string{"~ /etc/passwd (file 0644 0:0 p -> file 0644 0:0 q)"}},
		"copied up and as it was":        {Manifest{}, Manifest{"/etc": dir, "/etc/passwd": entryOf("p")}, nil},
		"machine's file removed":         {Manifest{}, Manifest{"/etc": dir, "/etc/passwd": gone}, []string{"- /etc/passwd (file 0644 0:0 p)"}},
		"whiteout of nothing":            {Manifest{}, Manifest{"/x": gone}, nil},
		"hidden since birth":             {Manifest{"/work": gone}, Manifest{"/work": gone}, nil},
		"provisioned file removed":       {Manifest{"/a": entryOf("1")}, Manifest{"/a": gone}, []string{"- /a (file 0644 0:0 1)"}},
		"mode alone is a change":         {Manifest{"/a": entryOf("1")}, Manifest{"/a": {Kind: "file", Mode: "0600", Owner: "0:0", Content: "1"}}, []string{"~ /a (file 0644 0:0 1 -> file 0600 0:0 1)"}},
		"directory left the layer again": {Manifest{"/etc": dir}, Manifest{}, nil},
		"file became a link":             {Manifest{"/a": entryOf("1")}, Manifest{"/a": {Kind: "link", Mode: "0777", Owner: "0:0", Content: "/b"}}, []string{"~ /a (file 0644 0:0 1 -> link 0777 0:0 /b)"}},
		"directory removed and made anew": {Manifest{}, Manifest{"/etc": dir, "/etc/containerd": anew, "/etc/containerd/config.toml": entryOf("u")},
			[]string{"- /etc/containerd/certs (file 0644 0:0 c)", "~ /etc/containerd/config.toml (file 0644 0:0 t -> file 0644 0:0 u)"}},
		"directory made anew with another mode": {Manifest{}, Manifest{"/etc/containerd": {Kind: "dir", Mode: "0700", Owner: "0:0", Opaque: true}, "/etc/containerd/certs": entryOf("c"), "/etc/containerd/config.toml": entryOf("t")},
			[]string{"~ /etc/containerd (dir 0755 0:0 -> dir 0700 0:0)"}},
		"born with an empty directory": {Manifest{"/etc/containerd": anew}, Manifest{"/etc/containerd": anew}, nil},
		"a file in what was born empty is new": {Manifest{"/etc/containerd": anew}, Manifest{"/etc/containerd": anew, "/etc/containerd/config.toml": entryOf("t")},
			[]string{"+ /etc/containerd/config.toml (file 0644 0:0 t)"}},
		"two changes come in path's order": {Manifest{}, Manifest{"/b": entryOf("1"), "/a": entryOf("1")}, []string{"+ /a (file 0644 0:0 1)", "+ /b (file 0644 0:0 1)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range Diff(tc.birth, tc.now, lower) {
				got = append(got, c.String())
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
		})
	}
}

func TestSnapshotLeavesNoiseOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, content := range map[string]string{
		"etc/containerd/config.toml": "x", "var/log/journal": "noise", "etc/machine-id": "noise",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("config.toml", filepath.Join(dir, "etc/containerd/link")); err != nil {
		t.Fatal(err)
	}
	m, err := Snapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/containerd/config.toml", "/etc/containerd/link"} {
		if _, ok := m[path]; !ok {
			t.Errorf("%s is missing from %v", path, m)
		}
	}
	for _, path := range []string{"/var/log/journal", "/etc/machine-id"} {
		if _, ok := m[path]; ok {
			t.Errorf("%s is noise and was not left out", path)
		}
	}
	if m["/etc/containerd/link"].Content != "config.toml" {
		t.Errorf("link target %q", m["/etc/containerd/link"].Content)
	}
}

func TestLayer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"etc/containerd/config.toml", "etc/containerd/certs.d/x", "etc/other", "home/me"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := Layer{Dir: dir, Hidden: func(p string) bool { return strings.HasPrefix(p, "/home") }}
	if d := cmp.Diff([]string{"/etc/containerd/certs.d", "/etc/containerd/certs.d/x", "/etc/containerd/config.toml"}, l.Below("/etc/containerd")); d != "" {
		t.Errorf("below (-want +got):\n%s", d)
	}
	if e, ok := l.Entry("/etc/other"); !ok || e.Kind != "file" || e.Mode != "0644" {
		t.Errorf("entry %v %v", e, ok)
	}
	for _, absent := range []string{"/home/me", "/nowhere"} {
		if e, ok := l.Entry(absent); ok {
			t.Errorf("%s is %v", absent, e)
		}
	}
}
