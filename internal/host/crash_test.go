package host

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/internal/plan"
)

// crash is what the failpoint panics with: the process is gone between two effects.
type crash struct{ point string }

// crashAfter returns a failpoint that ends the run at the n-th point (0: never)
// and counts the points it passed.
func crashAfter(n int, seen *int) func(string) {
	return func(point string) {
		*seen++
		if *seen == n {
			panic(crash{point})
		}
	}
}

// survive runs f and says at which point it crashed, if it did.
func survive(f func()) (at string) {
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(crash)
			if !ok {
				panic(r)
			}
			at = c.point
		}
	}()
	f()
	return ""
}

// appendEditor appends a line; it stands for any edit of somebody else's file.
type appendEditor struct{}

func (appendEditor) Apply(args map[string]string, prev []byte, _ bool) ([]byte, error) {
	if bytes.Contains(prev, []byte(args["line"])) {
		return prev, nil
	}
	return append(bytes.Clone(prev), args["line"]...), nil
}

func (appendEditor) Revert(args map[string]string, cur []byte) ([]byte, bool, error) {
	next := bytes.ReplaceAll(cur, []byte(args["line"]), nil)
	return next, len(next) > 0, nil
}

func editors() plan.Editors { return plan.Editors{"append": appendEditor{}} }

// memPayload is a payload in memory.
type memPayload map[string][]byte

func (p memPayload) OpenPayload(name string) (io.ReadCloser, error) {
	b, ok := p[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// big is a prior content that does not fit into the ledger.
func big() []byte { return bytes.Repeat([]byte("old binary "), plan.InlineLimit/8) }

// bornHost makes the host of these tests: files to keep, to replace, to edit and to remove.
func bornHost(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"etc/rt", "var/lib", "opt/old"} {
		check(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for name, f := range map[string]struct {
		data []byte
		mode fs.FileMode
	}{
		"etc/rt/config":   {[]byte("theirs\n"), 0o640},
		"etc/rt/replaced": {[]byte("before\n"), 0o600},
		"etc/rt/unwanted": {[]byte("goes away\n"), 0o644},
		"opt/old/binary":  {big(), 0o755},
	} {
		p := filepath.Join(dir, name)
		check(t, os.WriteFile(p, f.data, 0o600))
		check(t, os.Chmod(p, f.mode))
	}
	check(t, os.Symlink("binary", filepath.Join(dir, "opt/old/link")))
	return dir
}

// wantedSteps has every kind of step that leaves something in the file system.
func wantedSteps(p memPayload) []plan.Step {
	src := func(name string) *plan.Source {
		return &plan.Source{Name: name, Hash: plan.HashBytes(p[name]), Size: int64(len(p[name]))}
	}
	steps := []plan.Step{
		{Kind: plan.KindDirectory, Path: "/opt/new/deep", Mode: 0o750},
		{Kind: plan.KindFile, Path: "/opt/new/deep/bin/tool", Source: src("tool"), Mode: 0o755},
		{Kind: plan.KindFile, Path: "/opt/old/binary", Source: src("tool"), Mode: 0o755},
		{Kind: plan.KindFile, Path: "/etc/rt/replaced", Content: []byte("after\n"), Mode: 0o644},
		{Kind: plan.KindSymlink, Path: "/opt/old/link", Target: "/opt/new/deep/bin/tool"},
		{Kind: plan.KindAbsent, Path: "/etc/rt/unwanted"},
		{Kind: plan.KindEdit, Path: "/etc/rt/config", Edit: &plan.Edit{Name: "append", Args: map[string]string{"line": "ours\n"}}},
		{Kind: plan.KindEdit, Path: "/etc/rt/begun", Edit: &plan.Edit{Name: "append", Args: map[string]string{"line": "ours\n"}}},
	}
	for i := range steps {
		steps[i].Group, steps[i].Why = "test", "test"
	}
	return plan.WithParents(steps)
}

// apply brings the host to the steps.
func apply(t *testing.T, dir string, steps []plan.Step, p memPayload, failpoint func(string)) {
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	s, err := root.Begin(Options{Payload: p, Failpoint: failpoint})
	check(t, err)
	seen, err := root.Observe(plan.Keys(steps, s.Ledger()))
	check(t, err)
	cs, err := plan.Diff(steps, seen, s.Ledger(), plan.Options{Editors: editors(), Group: "test"})
	check(t, err)
	_, err = s.Apply(cs)
	check(t, err)
	check(t, s.End())
}

// undo takes back what the ledger has.
func undo(t *testing.T, dir string, failpoint func(string)) {
	root, err := OpenRoot(dir)
	check(t, err)
	defer root.Close()
	s, err := root.Begin(Options{Failpoint: failpoint})
	check(t, err)
	seen, err := root.Observe(plan.Keys(nil, s.Ledger()))
	check(t, err)
	cs, err := plan.Undo(s.Ledger(), seen, editors())
	check(t, err)
	_, err = s.Apply(cs)
	check(t, err)
	check(t, s.End())
}

// hostTree is every path with mode, target and content; times apart.
func hostTree(t *testing.T, dir string, without ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		for _, w := range without {
			if ok, _ := filepath.Match(w, rel); ok {
				return filepath.SkipDir
			}
		}
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		out[rel] = info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[rel] += " " + plan.HashBytes(data)
		}
		if target, err := os.Readlink(p); err == nil {
			out[rel] += " -> " + target
		}
		return nil
	}))
	return out
}

// TestCrashWalk ends apply at every point between two effects and shows that from
// there both roads are open: a second run reaches the same host as one without a
// crash, and an undo reaches the host as it was born.
func TestCrashWalk(t *testing.T) {
	payload := memPayload{"tool": []byte("#!tool\n")}
	steps := wantedSteps(payload)
	plain := bornHost(t)
	born := hostTree(t, plain)
	points := 0
	apply(t, plain, steps, payload, crashAfter(0, &points))
	applied := hostTree(t, plain, "var/lib/gpu-operator")
	if points < 30 {
		t.Fatalf("only %d points between effects: the walk would show little", points)
	}
	for n := 1; n <= points; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			again, back := bornHost(t), bornHost(t)
			for _, dir := range []string{again, back} {
				seen := 0
				if at := survive(func() { apply(t, dir, steps, payload, crashAfter(n, &seen)) }); at == "" {
					t.Fatalf("point %d was not reached", n)
				}
			}
			never := 0
			apply(t, again, steps, payload, crashAfter(0, &never))
			if diff := cmp.Diff(applied, hostTree(t, again, "var/lib/gpu-operator")); diff != "" {
				t.Errorf("second run after the crash (-without crash +after crash):\n%s", diff)
			}
			undo(t, again, nil)
			undo(t, back, nil)
			for name, dir := range map[string]string{"after a second run": again, "at once": back} {
				if diff := cmp.Diff(born, hostTree(t, dir)); diff != "" {
					t.Errorf("undo %s (-born +undone):\n%s", name, diff)
				}
			}
		})
	}
}

// TestCrashWalkUndo ends an undo at every point and shows that a second undo reaches the born host.
func TestCrashWalkUndo(t *testing.T) {
	payload := memPayload{"tool": []byte("#!tool\n")}
	steps := wantedSteps(payload)
	dir := bornHost(t)
	born := hostTree(t, dir)
	apply(t, dir, steps, payload, nil)
	points := 0
	undo(t, dir, crashAfter(0, &points))
	for n := 1; n <= points; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir := bornHost(t)
			apply(t, dir, steps, payload, nil)
			seen := 0
			if at := survive(func() { undo(t, dir, crashAfter(n, &seen)) }); at == "" {
				t.Fatalf("point %d was not reached", n)
			}
			undo(t, dir, nil)
			if diff := cmp.Diff(born, hostTree(t, dir)); diff != "" {
				t.Errorf("second undo (-born +undone):\n%s", diff)
			}
		})
	}
}

// TestCrashWalkUpdate ends a second apply with other contents at every point: what we
// wrote first must never look like somebody else's work.
func TestCrashWalkUpdate(t *testing.T) {
	first := memPayload{"tool": []byte("#!tool\n")}
	second := memPayload{"tool": []byte("#!tool, newer\n")}
	dir := bornHost(t)
	born := hostTree(t, dir)
	apply(t, dir, wantedSteps(first), first, nil)
	points := 0
	apply(t, dir, wantedSteps(second), second, crashAfter(0, &points))
	applied := hostTree(t, dir, "var/lib/gpu-operator")
	for n := 1; n <= points; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			again, back := bornHost(t), bornHost(t)
			for _, dir := range []string{again, back} {
				apply(t, dir, wantedSteps(first), first, nil)
				seen := 0
				survive(func() { apply(t, dir, wantedSteps(second), second, crashAfter(n, &seen)) })
			}
			apply(t, again, wantedSteps(second), second, nil)
			if diff := cmp.Diff(applied, hostTree(t, again, "var/lib/gpu-operator")); diff != "" {
				t.Errorf("second run after the crash (-without crash +after crash):\n%s", diff)
			}
			undo(t, again, nil)
			undo(t, back, nil)
			for name, dir := range map[string]string{"after a second run": again, "at once": back} {
				if diff := cmp.Diff(born, hostTree(t, dir)); diff != "" {
					t.Errorf("undo %s (-born +undone):\n%s", name, diff)
				}
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
