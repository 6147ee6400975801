package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// list prints what a tree's layer holds.
func list(t *testing.T, tree Tree) (digest string, lines []string) {
	t.Helper()
	l, err := tree.Layer()
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return d.String(), lines
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %04o %s%s", h.Name, h.Mode, data, h.Linkname))
	}
}

func TestLayer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "bin", "tool")
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, []byte("elf"), 0o700), os.Symlink("tool", filepath.Join(folder, "bin", "alias"))); err != nil {
		t.Fatal(err)
	}
	tree := func() Tree {
		out := Tree{
			"etc/config":     {Data: "a"},
			"etc/secret":     {Data: "b", Mode: 0o600},
			"tmp":            {Dir: true, Mode: 0o777 | os.ModeSticky},
			"usr/bin/mytool": {Source: program, Mode: 0o755},
		}
		if err := out.AddFolder(folder, "opt"); err != nil {
			t.Fatal(err)
		}
		return out
	}
	digest, got := list(t, tree())
	want := []string{
		"etc/ 0755 ", "etc/config 0644 a", "etc/secret 0600 b",
		"opt/ 0755 ", "opt/bin/ 0755 ", "opt/bin/alias 0777 tool", "opt/bin/tool 0700 elf",
		"tmp/ 1777 ", "usr/ 0755 ", "usr/bin/ 0755 ", "usr/bin/mytool 0755 elf",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the layer (-want +got):\n%s", d)
	}
	// The same content, made later, is the same image.
	if err := os.Chtimes(program, time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if again, _ := list(t, tree()); again != digest {
		t.Errorf("two makings of one layer have digests %s and %s", digest, again)
	}
	other := tree()
	other["etc/config"] = Entry{Data: "c"}
	if changed, _ := list(t, other); changed == digest {
		t.Error("another content has the same digest")
	}
	if _, err := (Tree{"x": {Source: filepath.Join(folder, "absent")}}).Layer(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, r := range Recipes() {
		if got, err := Find(r.Short); err != nil || got.Short != r.Short {
			t.Errorf("Find(%q) = %q, %v", r.Short, got.Short, err)
		}
	}
	if _, err := Find("nginx"); err == nil {
		t.Error("an image that nobody builds was found")
	}
}
