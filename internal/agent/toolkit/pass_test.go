package toolkit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/host/daemon"
)

const dropIn = "etc/containerd/conf.d/99-nvidia.toml"

// tree is every path outside of /run with its content.
func (n *node) tree() map[string]string {
	n.t.Helper()
	out := map[string]string{}
	must(n.t, filepath.Walk(n.dir, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(n.dir, p)
		if rel == "run" {
			return filepath.SkipDir
		}
		out[rel] = info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[rel] += " " + string(data)
		}
		return nil
	}))
	return out
}

func TestPass(t *testing.T) {
	n := newNode(t)
	n.rt.kubelet = "/var/run/containerd/containerd.sock" // the same socket by another name
	a := New(n.cfg, n.deps)
	must(t, a.Pass(t.Context()))
	want := v1alpha1.StepEvidence{
		Step: Step, BootID: bootA, Ready: true, Phase: "Applied", DriverVersion: "550.1", Handlers: []string{"nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-management", "runc"},
		RuntimeStartedAt: 150, RuntimeRestarts: 1,
	}
	got := n.evidence()
	if got.Hash == "" || got.Time == nil {
		t.Errorf("evidence has no hash or time: %+v", got)
	}
	got.Hash, got.Time = "", nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
	if n.rt.restarts != 1 {
		t.Errorf("runtime was restarted %d times, want once", n.rt.restarts)
	}
	if names, _ := filepath.Glob(filepath.Join(n.dir, "run/nvidia/gpu-operator/*")); len(names) != 1 {
		t.Errorf("left in /run: %q", names)
	}
	if spec := n.read("run/cdi/nvidia.com-gpu.yaml"); !strings.Contains(spec, "550.1") {
		t.Errorf("CDI spec = %q", spec)
	}
}

// TestPassAgain: on a node that is as it should be nothing is written and nothing is
// restarted, by the same agent and by one that begins anew.
func TestPassAgain(t *testing.T) {
	n := newNode(t)
	a := New(n.cfg, n.deps)
	must(t, a.Pass(t.Context()))
	before, evidence := n.tree(), n.read("run/nvidia/gpu-operator/container-toolkit.json")
	n.now = n.now.Add(time.Hour)
	must(t, a.Pass(t.Context()))
	must(t, New(n.cfg, n.deps).Pass(t.Context()))
	if diff := cmp.Diff(before, n.tree()); diff != "" {
		t.Errorf("host changed (-before +after):\n%s", diff)
	}
	if n.rt.restarts != 1 {
		t.Errorf("runtime was restarted %d times, want once", n.rt.restarts)
	}
	if after := n.read("run/nvidia/gpu-operator/container-toolkit.json"); after != evidence {
		t.Errorf("evidence was rewritten:\n%s\n%s", evidence, after)
	}
	if a.differs(t.Context()) != true { // no socket here: the cheap look must say so rather than nothing
		t.Error("a missing socket is no difference")
	}
}

// TestPassRefuses: what must be seen before anything is written.
func TestPassRefuses(t *testing.T) {
	tests := []struct {
		name   string
		harm   func(*node)
		reason string
	}{
		{"a restart would kill containers", func(n *node) { n.rt.unit.KillMode = "control-group" }, fault.ReasonRestartUnsafe},
		{"mixed kills the shims too", func(n *node) { n.rt.unit.KillMode = "mixed" }, fault.ReasonRestartUnsafe},
		{"the daemon would not see the handlers", func(n *node) { n.rt.blind = true }, fault.ReasonDryRunFailed},
		{"a runtime of another make", func(n *node) { n.rt.name = "cri-o" }, fault.ReasonRuntimeUnsupported},
		{"a runtime that does not serve the kubelet", func(n *node) { n.rt.kubelet = "/run/k3s/containerd/containerd.sock" }, fault.ReasonRuntimeUnsupported},
		{"the runtime does not answer", func(n *node) { n.rt.down = true }, fault.ReasonApplyFailed},
		{"the configuration is broken already", func(n *node) { n.write("etc/containerd/config.toml", "version = 3\n[[\n") }, fault.ReasonDryRunFailed},
		{"an import is broken", func(n *node) { n.write("etc/containerd/conf.d/10-x.toml", "[[\n") }, fault.ReasonDryRunFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			tt.harm(n)
			before := n.tree()
			err := New(n.cfg, n.deps).Pass(t.Context())
			if got := fault.ReasonOf(err, fault.ReasonApplyFailed); err == nil || got != tt.reason {
				t.Errorf("Pass = %v (%s), want %s", err, got, tt.reason)
			}
			if diff := cmp.Diff(before, n.tree()); diff != "" {
				t.Errorf("host was touched (-before +after):\n%s", diff)
			}
			if e := n.evidence(); e.Ready || e.Reason != tt.reason || e.Message == "" {
				t.Errorf("evidence = %+v", e)
			}
			if n.rt.restarts != 0 {
				t.Errorf("runtime was restarted %d times", n.rt.restarts)
			}
		})
	}
}

// TestRollBack: a daemon that does not come back gets its old configuration back,
// and is not tried again with the same one.
func TestRollBack(t *testing.T) {
	n := newNode(t)
	n.rt.breaks = true
	config := n.read("etc/containerd/config.toml")
	a := New(n.cfg, n.deps)
	err := a.Pass(t.Context())
	if fault.ReasonOf(err, "") != fault.ReasonRestartFailed {
		t.Fatalf("Pass = %v, want %s", err, fault.ReasonRestartFailed)
	}
	if _, err := os.Stat(filepath.Join(n.dir, dropIn)); !os.IsNotExist(err) {
		t.Errorf("drop-in is still there: %v", err)
	}
	if got := n.read("etc/containerd/config.toml"); got != config {
		t.Errorf("root file = %q, want %q", got, config)
	}
	if n.rt.down || n.rt.restarts != 2 {
		t.Errorf("runtime down = %v after %d restarts, want it up after 2", n.rt.down, n.rt.restarts)
	}
	if e := n.evidence(); e.Ready || e.Reason != fault.ReasonRestartFailed || e.RuntimeRestarts != 2 {
		t.Errorf("evidence = %+v", e)
	}
	if err := a.Pass(t.Context()); fault.ReasonOf(err, "") != fault.ReasonRestartFailed || n.rt.restarts != 2 {
		t.Errorf("second Pass = %v after %d restarts, want no further try", err, n.rt.restarts)
	}
}

// TestDrift: what others change is put right, a few times; then the writer is named.
func TestDrift(t *testing.T) {
	n := newNode(t)
	a := New(n.cfg, n.deps)
	must(t, a.Pass(t.Context()))
	good := n.read(dropIn)
	for i := range driftLimit {
		n.write(dropIn, "version = 3\n")
		must(t, a.Pass(t.Context()))
		if got := n.read(dropIn); got != good {
			t.Fatalf("round %d: drop-in = %q", i, got)
		}
	}
	if n.rt.restarts != 1 {
		t.Errorf("runtime was restarted %d times: it knew the handlers all along", n.rt.restarts)
	}
	n.write(dropIn, "version = 3\n")
	if err := a.Pass(t.Context()); fault.ReasonOf(err, "") != fault.ReasonHostFileChanged || !strings.Contains(err.Error(), dropIn) {
		t.Errorf("Pass = %v, want %s naming the file", err, fault.ReasonHostFileChanged)
	}
	n.now = n.now.Add(driftPeriod)
	must(t, a.Pass(t.Context()))
}

// TestRestartedByOthers: another start of the daemon makes other evidence.
func TestRestartedByOthers(t *testing.T) {
	n := newNode(t)
	a := New(n.cfg, n.deps)
	must(t, a.Pass(t.Context()))
	must(t, n.rt.Restart(t.Context(), daemonUnit()))
	must(t, a.Pass(t.Context()))
	if e := n.evidence(); e.RuntimeStartedAt != 200 || e.RuntimeRestarts != 1 {
		t.Errorf("evidence = %+v", e)
	}
}

// TestDriver: specs follow the driver; without one the step is not ready, and the
// handlers are there all the same.
func TestDriver(t *testing.T) {
	n := newNode(t)
	state := v1alpha1.DriverState{Reason: fault.ReasonDriverNotLoaded, Message: "not loaded"}
	n.deps.Driver = func() v1alpha1.DriverState { return state }
	a := New(n.cfg, n.deps)
	if err := a.Pass(t.Context()); fault.ReasonOf(err, "") != fault.ReasonDriverNotLoaded {
		t.Fatalf("Pass = %v", err)
	}
	if e := n.evidence(); e.Ready || !slices.Contains(e.Handlers, "nvidia") {
		t.Errorf("evidence = %+v", e)
	}
	state = v1alpha1.DriverState{Kind: "Host", Root: "/", LoadedVersion: "560.1", LibraryVersion: "560.1", Ready: true}
	must(t, a.Pass(t.Context()))
	if spec := n.read("run/cdi/management.nvidia.com-gpu.yaml"); !strings.Contains(spec, "560.1") {
		t.Errorf("spec = %q", spec)
	}
}

func TestUninstall(t *testing.T) {
	n := newNode(t)
	born := n.tree()
	must(t, New(n.cfg, n.deps).Pass(t.Context()))
	a := New(n.cfg, n.deps)
	n.rt.pods = []daemon.Sandbox{{Pod: "default/train", Handler: "nvidia"}}
	done, err := a.uninstallOnce(t.Context(), n.now)
	if done || fault.ReasonOf(err, "") != fault.ReasonWaitingForPods || !strings.Contains(err.Error(), "default/train") {
		t.Fatalf("uninstall = %v, %v; want it to wait for the Pod", done, err)
	}
	if n.rt.restarts != 1 {
		t.Errorf("runtime was restarted while a Pod used the handler")
	}
	since := n.now
	n.now = n.now.Add(time.Hour)
	if _, err := a.uninstallOnce(t.Context(), since); err == nil || !strings.Contains(err.Error(), "waiting for longer than") {
		t.Errorf("uninstall = %v, want it to say that it waited too long", err)
	}
	n.rt.pods = nil
	must(t, a.Uninstall(t.Context()))
	if diff := cmp.Diff(born, n.tree()); diff != "" {
		t.Errorf("host is not as it was born (-born +after):\n%s", diff)
	}
	e := n.evidence()
	if !e.Ready || e.Phase != "Undone" || n.rt.restarts != 2 || slices.Contains(e.Handlers, "nvidia") {
		t.Errorf("evidence = %+v after %d restarts", e, n.rt.restarts)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "run/cdi/nvidia.com-gpu.yaml")); !os.IsNotExist(err) {
		t.Errorf("CDI spec is still there: %v", err)
	}
	must(t, New(n.cfg, n.deps).Uninstall(t.Context()))
	if n.rt.restarts != 2 {
		t.Errorf("a second uninstall restarted the runtime")
	}
}

// TestUninstallDefault: Pods that got our launcher by default keep it until they are
// gone, as plain runc; everything else is taken back at once.
func TestUninstallDefault(t *testing.T) {
	n := newNode(t)
	n.cfg.Options.SetAsDefault = true
	born := n.tree()
	must(t, New(n.cfg, n.deps).Pass(t.Context()))
	if !strings.Contains(n.read(dropIn), `default_runtime_name = "nvidia"`) {
		t.Fatalf("drop-in:\n%s", n.read(dropIn))
	}
	n.rt.pods = []daemon.Sandbox{{Pod: "kube-system/kube-proxy"}}
	a := New(n.cfg, n.deps)
	for range 2 {
		done, err := a.uninstallOnce(t.Context(), n.now)
		if done || fault.ReasonOf(err, "") != fault.ReasonWaitingForPods || !strings.Contains(err.Error(), "kube-system/kube-proxy") {
			t.Fatalf("uninstall = %v, %v", done, err)
		}
	}
	var left []string
	for p := range n.tree() {
		if _, was := born[p]; !was && !strings.HasPrefix(p, "var/lib/gpu-operator") {
			left = append(left, p)
		}
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"usr/local/nvidia", "usr/local/nvidia/toolkit", "usr/local/nvidia/toolkit/nvidia-container-runtime"}, left); diff != "" {
		t.Errorf("left on the host (-want +got):\n%s", diff)
	}
	if n.rt.restarts != 2 {
		t.Errorf("runtime was restarted %d times", n.rt.restarts)
	}
	n.rt.pods = nil
	must(t, a.Uninstall(t.Context()))
	if diff := cmp.Diff(born, n.tree()); diff != "" {
		t.Errorf("host is not as it was born (-born +after):\n%s", diff)
	}
}

// TestDistribution: on k3s, which writes its containerd's configuration at each start
// and finds our runtime itself, a node becomes ready with one restart, a second pass
// changes nothing, and an uninstall gives back what was, also the handler that k3s
// found.
func TestDistribution(t *testing.T) {
	const dir = "/var/lib/rancher/k3s/agent/etc/containerd/"
	for name, tc := range map[string]struct{ imports, changed string }{
		"a drop-in":  {"imports = [\"" + dir + "config-v3.toml.d/*.toml\"]\n", "config-v3.toml.d/99-nvidia.toml"},
		"a template": {"", "config-v3.toml.tmpl"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write(dir+"config.toml", "version = 3\n"+tc.imports)
			n.rt.k3s = dir + "config.toml"
			n.rt.render = func() string {
				return n.rt.rendered("version = 3\n" + tc.imports + "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n")
			}
			must(t, n.rt.load())
			born := n.tree()
			a := New(n.cfg, n.deps)
			must(t, a.Pass(t.Context()))
			if e := n.evidence(); !e.Ready || !slices.Contains(e.Handlers, "nvidia") || n.rt.restarts != 1 {
				t.Errorf("evidence = %+v after %d restarts", e, n.rt.restarts)
			}
			if text := n.read(dir + tc.changed); !strings.Contains(text, "nvidia-management") {
				t.Errorf("%s reads:\n%s", tc.changed, text)
			}
			after := n.tree()
			must(t, a.Pass(t.Context()))
			if diff := cmp.Diff(after, n.tree()); diff != "" || n.rt.restarts != 1 {
				t.Errorf("a second pass changed the host (%d restarts):\n%s", n.rt.restarts, diff)
			}
			must(t, New(n.cfg, n.deps).Uninstall(t.Context()))
			if diff := cmp.Diff(born, n.tree()); diff != "" {
				t.Errorf("host is not as it was born (-born +after):\n%s", diff)
			}
			if e := n.evidence(); !e.Ready || slices.Contains(e.Handlers, "nvidia") || n.rt.restarts != 2 {
				t.Errorf("evidence = %+v after %d restarts", e, n.rt.restarts)
			}
		})
	}
}
