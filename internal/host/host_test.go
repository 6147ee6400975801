package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// TestContained: whatever links lie in a root, nothing outside it is read or written.
func TestContained(t *testing.T) {
	outer := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outer, "secret"), []byte("secret"), 0o600))
	dir := filepath.Join(outer, "root")
	check(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "real"), []byte("inside"), 0o600))
	for link, target := range map[string]string{
		"up": "../../secret", "abs": outer + "/secret", "dirup": "..", "a/b/deep": "../../../../secret",
		"in": "/real", "indir": "/a/b", "loop": "loop", "dangling": "/nowhere",
	} {
		check(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	tests := []struct {
		path string
		want string // content; "" when it must not be readable
	}{
		{"/up", ""}, {"/abs", ""}, {"/dirup/secret", ""}, {"/a/b/deep", ""}, {"/../secret", ""}, {"/loop", ""}, {"/dangling", ""},
		{"/in", "inside"}, {"/indir/../../real", "inside"}, {"/dirup/real", "inside"}, {"/a/../real", "inside"},
	}
	for _, tt := range tests {
		data, err := root.ReadFile(tt.path, 100)
		if string(data) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("ReadFile(%q) = %q, %v; want %q", tt.path, data, err, tt.want)
		}
	}
	s := root.volatileSession()
	check(t, s.replace("/dirup/planted", bytesContent([]byte("x")), meta{mode: 0o600}))
	if _, err := os.Stat(filepath.Join(outer, "planted")); !os.IsNotExist(err) {
		t.Error("a file was written outside the root")
	}
	if _, err := os.Stat(filepath.Join(dir, "planted")); err != nil {
		t.Errorf("the root's parent is the root: %v", err)
	}
}

// TestReplacedMeanwhile: a file that somebody wrote between looking and writing is not overwritten.
func TestReplacedMeanwhile(t *testing.T) {
	dir := bornHost(t)
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	s, err := root.Begin(Options{})
	check(t, err)
	steps := []plan.Step{{Kind: plan.KindFile, Path: "/etc/rt/replaced", Content: []byte("ours\n")}}
	seen, err := root.Observe(plan.Keys(steps, s.Ledger()))
	check(t, err)
	cs, err := plan.Diff(steps, seen, s.Ledger(), plan.Options{})
	check(t, err)
	theirs := filepath.Join(dir, "etc/rt/replaced")
	check(t, os.WriteFile(theirs, []byte("theirs, just now\n"), 0o600))
	_, err = s.Apply(cs)
	if fault.ReasonOf(err, "") != fault.ReasonHostFileChanged {
		t.Errorf("Apply = %v, want %s", err, fault.ReasonHostFileChanged)
	}
	if data, _ := os.ReadFile(theirs); string(data) != "theirs, just now\n" {
		t.Errorf("file = %q", data)
	}
	if len(s.Ledger().Entries) != 0 {
		t.Errorf("ledger = %+v", s.Ledger())
	}
}

// TestLock: one process at a time changes a host.
func TestLock(t *testing.T) {
	dir := bornHost(t)
	one, err := OpenRoot(dir)
	check(t, err)
	defer one.Close()
	two, err := OpenRoot(dir)
	check(t, err)
	defer two.Close()
	s, err := one.Begin(Options{})
	check(t, err)
	if _, err := two.Begin(Options{}); fault.ReasonOf(err, "") != fault.ReasonHostLocked {
		t.Errorf("second Begin = %v, want %s", err, fault.ReasonHostLocked)
	}
	check(t, s.End())
	s, err = two.Begin(Options{})
	check(t, err)
	check(t, s.End())
}

// TestBrokenLedger: a host whose ledger cannot be read is not changed.
func TestBrokenLedger(t *testing.T) {
	dir := bornHost(t)
	check(t, os.MkdirAll(filepath.Join(dir, names.StateDir), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, names.LedgerFile), []byte("{"), 0o600))
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	if _, err := root.Begin(Options{}); fault.ReasonOf(err, "") != fault.ReasonLedgerInvalid || !strings.Contains(err.Error(), names.LedgerFile) {
		t.Errorf("Begin = %v, want %s", err, fault.ReasonLedgerInvalid)
	}
}

// TestReadOnly: what cannot be written is said with what to do about it.
func TestReadOnly(t *testing.T) {
	for _, cause := range []error{unix.EROFS, os.ErrPermission} {
		err := readOnly("/usr/local/nvidia", pathError("open", "/usr/local/nvidia", cause))
		if fault.ReasonOf(err, "") != fault.ReasonHostReadOnly || !errors.Is(err, cause) || !strings.Contains(err.Error(), "spec.toolkit.installDir") {
			t.Errorf("readOnly(%v) = %v", cause, err)
		}
	}
	if err := readOnly("/x", unix.ENOSPC); fault.ReasonOf(err, "") != "" {
		t.Errorf("a full disk is called %v", err)
	}
}

// TestPayloadChanged: content that is not what was planned never takes its place.
func TestPayloadChanged(t *testing.T) {
	dir := bornHost(t)
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	s, err := root.Begin(Options{Payload: memPayload{"tool": []byte("other")}})
	check(t, err)
	c := plan.Change{Op: plan.OpCreate, Kind: plan.KindFile, Path: "/etc/new", From: plan.State{Type: plan.TypeAbsent},
		To: plan.State{Type: plan.TypeFile, Mode: 0o755, Hash: plan.HashBytes([]byte("planned"))}, Source: &plan.Source{Name: "tool"}}
	if _, err := s.Apply(plan.Changes{c}); err == nil || !strings.Contains(err.Error(), "changed while being copied") {
		t.Errorf("Apply = %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "etc/*new*")); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
	c.Source = &plan.Source{Name: "missing"}
	if _, err := s.Apply(plan.Changes{c}); fault.ReasonOf(err, "") != fault.ReasonPayloadMissing {
		t.Errorf("Apply = %v, want %s", err, fault.ReasonPayloadMissing)
	}
}

// TestVolatile: files without a ledger entry are written below /run only.
func TestVolatile(t *testing.T) {
	dir := bornHost(t)
	check(t, os.Symlink("/run", filepath.Join(dir, "var/run")))
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	check(t, root.WriteVolatile("/var/run/cdi/x.yaml", []byte("x"), 0o644))
	if _, err := os.Stat(filepath.Join(dir, "run/cdi/x.yaml")); err != nil {
		t.Error(err)
	}
	check(t, root.RemoveVolatile("/var/run/cdi/x.yaml"))
	check(t, root.RemoveVolatile("/var/run/cdi/x.yaml"))
	check(t, root.RemoveVolatile("/var/run/cdi"))
	if _, err := os.Stat(filepath.Join(dir, "run/cdi")); !os.IsNotExist(err) {
		t.Errorf("an empty directory stays: %v", err)
	}
	for _, p := range []string{"/etc/x", "/run/../etc/x", "/runx/y"} {
		if err := root.WriteVolatile(p, nil, 0o600); err == nil {
			t.Errorf("%q was written", p)
		}
	}
}

// fakeRunner records what it was asked to run.
type fakeRunner struct {
	ran []string
	err error
}

func (f *fakeRunner) LoadModule(name string) error {
	f.ran = append(f.ran, "module "+name)
	return f.err
}
func (f *fakeRunner) StartUnit(name string) error { f.ran = append(f.ran, "unit "+name); return f.err }

func TestRunner(t *testing.T) {
	root, err := OpenRoot(bornHost(t))
	check(t, err)
	defer root.Close()
	cs := plan.Changes{{Op: plan.OpRun, Kind: plan.KindModule, Path: "nvidia"}, {Op: plan.OpRun, Kind: plan.KindUnit, Path: "x.service"}, {Op: plan.OpRun, Kind: plan.KindRestart, Path: "c.service"}}
	r := &fakeRunner{}
	s, err := root.Begin(Options{Runner: r})
	check(t, err)
	restarts, err := s.Apply(cs)
	check(t, err)
	if strings.Join(r.ran, ",") != "module nvidia,unit x.service" || len(restarts) != 1 {
		t.Errorf("ran %q, restarts %v", r.ran, restarts)
	}
	r.err = errors.New("no such module")
	if _, err := s.Apply(cs); !errors.Is(err, r.err) {
		t.Errorf("Apply = %v", err)
	}
	s.runner = nil
	if _, err := s.Apply(cs); err == nil {
		t.Error("a module was loaded without a runner")
	}
}
