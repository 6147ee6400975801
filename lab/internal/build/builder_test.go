package build

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestComplete: an entry counts only as it was when its build ended.
func TestComplete(t *testing.T) {
	t.Parallel()
	c := Component{Binaries: []Binary{{Name: "kube"}, {Name: "ctr"}}, Links: []string{"kubelet"}}
	for name, tc := range map[string]struct {
		harm func(dir string) error
		want bool
	}{
		"as built":            {func(string) error { return nil }, true},
		"never finished":      {func(dir string) error { return os.Remove(filepath.Join(dir, marker)) }, false},
		"a program removed":   {func(dir string) error { return os.Remove(filepath.Join(dir, "ctr")) }, false},
		"a program truncated": {func(dir string) error { return os.Truncate(filepath.Join(dir, "kube"), 1) }, false},
		"a link removed":      {func(dir string) error { return os.Remove(filepath.Join(dir, "kubelet")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, b := range c.Binaries {
				if err := os.WriteFile(filepath.Join(dir, b.Name), []byte("elf of "+b.Name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.Symlink("kube", filepath.Join(dir, "kubelet")), mark(dir, c), tc.harm(dir)); err != nil {
				t.Fatal(err)
			}
			if got := complete(dir, c); got != tc.want {
				t.Errorf("complete is %v, want %v", got, tc.want)
			}
		})
	}
	if err := mark(t.TempDir(), c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an entry without its programs was marked: %v", err)
	}
}
