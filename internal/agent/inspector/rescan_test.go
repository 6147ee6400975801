package inspector

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// scanner returns a scanner of a host that is laid out once and looked at often.
func scanner(t *testing.T, h testHost) *Scanner {
	t.Helper()
	roots, err := OpenRoots(h.dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(roots.Close)
	return NewScanner(roots, "amd64")
}

// stateOf returns the state of a host change.
func stateOf(t *testing.T, n facts.Node, path string) string {
	t.Helper()
	for _, c := range n.HostChanges {
		if c.Path == path {
			return c.State
		}
	}
	t.Fatalf("no host change for %s", path)
	return ""
}

// TestDriftOfEqualSize: a file that changed and kept its size is noticed by a
// scanner that remembers hashes, and so is the way back.
func TestDriftOfEqualSize(t *testing.T) {
	h := unpack(t, "ready")
	s := scanner(t, h)
	file := filepath.Join(h.dir, names.ContainerdDropInFile)
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([]byte("#"), was[1:]...)
	for _, step := range []struct {
		content []byte
		want    string
	}{{was, plan.StatusOurs}, {changed, plan.StatusDrifted}, {was, plan.StatusOurs}} {
		if err := os.WriteFile(file, step.content, 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := stateOf(t, s.Scan(), names.ContainerdDropInFile); got != step.want {
				t.Errorf("state is %s, want %s", got, step.want)
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(t, s.Scan(), names.ContainerdDropInFile); got != plan.StatusMissing {
		t.Errorf("state of a removed file is %s", got)
	}
}

// TestRestartedRuntime: a new process of the runtime is found, also under the PID
// of the old one.
func TestRestartedRuntime(t *testing.T) {
	h := unpack(t, "ready")
	s := scanner(t, h)
	const stat = "640 (containerd) S 1 640 640 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 16 0 "
	for _, start := range []struct {
		text string
		want int64
	}{{"731 1 1\n", 731}, {"9000 1 1\n", 9000}} {
		h.write(t, "proc/640/stat", []byte(stat+start.text))
		if got := s.Scan().Identity.RuntimeStartedAt; got != start.want {
			t.Errorf("runtime started at %d, want %d", got, start.want)
		}
	}
	if err := os.RemoveAll(filepath.Join(h.dir, "proc/640")); err != nil {
		t.Fatal(err)
	}
	if n := s.Scan(); n.Identity.RuntimeStartedAt != 0 || n.RuntimeError == "" {
		t.Errorf("a runtime that is gone: started at %d, error %q", n.Identity.RuntimeStartedAt, n.RuntimeError)
	}
}

// TestWatcher: a change in a directory that matters is told, also in one that was
// not there when watching began; others are not.
func TestWatcher(t *testing.T) {
	h := unpack(t, "host-driver") // has neither a run directory of ours nor a ledger
	s := scanner(t, h)
	w, err := NewWatcher(s.roots.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// Watches are renewed by another goroutine: a change is made again until it is told.
	until := func(what string, change func(i int), on ...<-chan struct{}) {
		t.Helper()
		for i := range 50 {
			w.Refresh(s.Scan())
			change(i)
			for _, told := range on {
				select {
				case <-told:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
		t.Fatalf("%s: not told", what)
	}
	until("parent appears", func(i int) {
		if err := os.RemoveAll(filepath.Join(h.dir, names.NvidiaRunDir)); err != nil {
			t.Fatal(err)
		}
		h.write(t, filepath.Join(names.RunDir, "driver.json"), []byte{byte(i)})
	}, w.Changes(), w.Reports())
	until("report written", func(i int) { h.write(t, filepath.Join(names.RunDir, "driver.json"), []byte{byte(i)}) }, w.Reports())
	until("drop-in written", func(i int) { h.write(t, names.ContainerdConfig, []byte{byte(i)}) }, w.Changes())
	// What does not matter lies in the same parent; the next thing that matters is told.
	h.write(t, "run/some.pid", nil)
	h.write(t, filepath.Join(names.RunDir, "toolkit.json"), nil)
	select {
	case <-w.Reports():
	case <-time.After(5 * time.Second): // a bound for a failure, never waited for otherwise
		t.Error("report beside a file that does not matter: not told")
	}
}
