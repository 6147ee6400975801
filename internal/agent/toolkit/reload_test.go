package toolkit

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const k0sDropIn = "etc/k0s/containerd.d/99-nvidia.toml"

// k0sNode is a node of k0s, which restarts its containerd 8 s after a file of its
// users changed: it waits 3 s for more, and starts a daemon that ended after 5 s.
// With deaf it does not.
func k0sNode(t *testing.T, deaf bool) *node {
	t.Helper()
	n := newNode(t)
	must(t, os.RemoveAll(filepath.Join(n.dir, "etc/containerd")))
	n.write("etc/k0s/containerd.toml", "# k0s_managed=true\nversion = 3\nimports = [\"/etc/k0s/containerd.d/*.toml\"]\n")
	must(t, os.MkdirAll(filepath.Join(n.dir, "etc/k0s/containerd.d"), 0o755))
	n.rt.k3s, n.rt.unit.Name = "/etc/k0s/containerd.toml", "k0sworker.service"
	must(t, n.rt.load())
	seen, due := "", time.Time{}
	n.deps.Pause = func(_ context.Context, d time.Duration) {
		n.now = n.now.Add(d)
		data, _ := os.ReadFile(filepath.Join(n.dir, k0sDropIn))
		switch {
		case string(data) != seen:
			seen, due = string(data), n.now.Add(8*time.Second)
		case !deaf && !due.IsZero() && n.now.After(due):
			due, n.rt.start = time.Time{}, n.rt.start+50
			must(t, n.rt.load())
		}
	}
	return n
}

// TestDistributionRestartsByItself: where a changed file makes the distribution
// restart its runtime, its unit (a whole control plane, perhaps) is left alone; when
// it does not, the unit is restarted. On the way back likewise.
func TestDistributionRestartsByItself(t *testing.T) {
	for name, deaf := range map[string]bool{"it does": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			n := k0sNode(t, deaf)
			before := n.tree()
			a := New(n.cfg, n.deps)
			must(t, a.Pass(t.Context()))
			want := map[bool]int{false: 0, true: 1}[deaf]
			if e := n.evidence(); !e.Ready || e.RuntimeRestarts != 1 || n.rt.restarts != want {
				t.Errorf("evidence %+v; the unit was restarted %d times, want %d", e, n.rt.restarts, want)
			}
			must(t, a.Uninstall(t.Context()))
			if diff := cmp.Diff(before, n.tree()); diff != "" {
				t.Errorf("host (-before +after):\n%s", diff)
			}
			if _, knows := n.rt.handlers["nvidia"]; knows || n.rt.restarts != 2*want {
				t.Errorf("handlers %v; the unit was restarted %d times, want %d", n.rt.handlers, n.rt.restarts, 2*want)
			}
		})
	}
}

// TestSnapIsUpdated: MicroK8s copies its settings for a new revision and leads
// "current" there. What was written must be found there, and taken back there.
func TestSnapIsUpdated(t *testing.T) {
	n := newNode(t)
	must(t, os.RemoveAll(filepath.Join(n.dir, "etc/containerd")))
	const template = "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".cni]\nconf_dir = \"${SNAP_DATA}/args\"\n"
	snap := func(revision, text string) {
		n.write("var/snap/microk8s/"+revision+"/args/containerd-template.toml", text)
		n.write("var/snap/microk8s/"+revision+"/args/containerd.toml", text)
		_ = os.Remove(filepath.Join(n.dir, "var/snap/microk8s/current"))
		must(t, os.Symlink(revision, filepath.Join(n.dir, "var/snap/microk8s/current")))
		n.rt.k3s = "/var/snap/microk8s/" + revision + "/args/containerd.toml"
		n.rt.render = func() string { return n.read("var/snap/microk8s/" + revision + "/args/containerd-template.toml") }
		must(t, n.rt.load())
	}
	snap("8511", template)
	a := New(n.cfg, n.deps)
	must(t, a.Pass(t.Context()))
	if e := n.evidence(); !e.Ready || n.rt.restarts != 1 {
		t.Fatalf("evidence %+v after %d restarts", e, n.rt.restarts)
	}
	ours := n.read("var/snap/microk8s/8511/args/containerd-template.toml")
	must(t, os.Rename(filepath.Join(n.dir, "var/snap/microk8s/8511"), filepath.Join(n.dir, "var/snap/microk8s/old")))
	snap("8600", ours)
	must(t, a.Pass(t.Context()))
	if e := n.evidence(); !e.Ready || n.rt.restarts != 1 {
		t.Errorf("after the update: evidence %+v after %d restarts", e, n.rt.restarts)
	}
	must(t, a.Uninstall(t.Context()))
	if got := n.read("var/snap/microk8s/8600/args/containerd-template.toml"); got != template {
		t.Errorf("after the removal the template is:\n%s", got)
	}
}
