package node

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// provisioned are the files of a node by path.
func provisioned(s Spec) map[string]file {
	n := Node{Spec: s}
	out := map[string]file{}
	for _, f := range n.files() {
		out[f.path] = f
	}
	return out
}

// TestNodesDifferOnlyInTheirNames: two nodes of one kind have the same files, and
// what differs in them is who they are.
func TestNodesDifferOnlyInTheirNames(t *testing.T) {
	t.Parallel()
	a := provisioned(Spec{Name: "gpu-1", IP: "10.77.0.11", PodCIDR: "10.78.1.0/24"})
	b := provisioned(Spec{Name: "gpu-2", IP: "10.77.0.12", PodCIDR: "10.78.2.0/24"})
	if d := cmp.Diff(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))); d != "" {
		t.Errorf("files (-gpu-1 +gpu-2):\n%s", d)
	}
	rename := strings.NewReplacer("gpu-1", "gpu-2", "10.77.0.11", "10.77.0.12", "10.78.1.0", "10.78.2.0").Replace
	for path, f := range a {
		if path == "/etc/machine-id" {
			if f.content == b[path].content {
				t.Error("two nodes have one machine id")
			}
			continue
		}
		if d := cmp.Diff(rename(f.content), b[path].content); d != "" {
			t.Errorf("%s (-gpu-1 +gpu-2):\n%s", path, d)
		}
	}
}

func TestWhatANodeIsMadeOf(t *testing.T) {
	t.Parallel()
	boot, driver := "/etc/systemd/system/sysinit.target.wants/gpusim-boot.service", "/etc/systemd/system/multi-user.target.wants/gpusim-driver.service"
	for name, tc := range map[string]struct {
		spec Spec
		has  map[string]bool
	}{
		"driver in the image": {Spec{Driver: "host", MachineFile: "m", Bin: Binaries{Gpusim: "g"}}, map[string]bool{boot: true, driver: true, "/etc/gpusim/machine.yaml": true}},
		"bare":                {Spec{Driver: "none", MachineFile: "m", Bin: Binaries{Gpusim: "g"}}, map[string]bool{boot: true, driver: false, "/etc/gpusim/machine.yaml": true}},
		"no GPU":              {Spec{Driver: "host", Bin: Binaries{Gpusim: "g"}}, map[string]bool{boot: true, driver: false, "/etc/gpusim/machine.yaml": false}},
		"no simulation":       {Spec{}, map[string]bool{boot: false, driver: false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := provisioned(tc.spec)
			for path, want := range tc.has {
				if _, has := files[path]; has != want {
					t.Errorf("%s is provisioned: %v, want %v", path, has, want)
				}
			}
		})
	}
	for runtime, want := range map[string]string{"containerd-1.6": "version = 2\n", "containerd-2": "version = 3\n"} {
		if c := provisioned(Spec{Runtime: runtime})["/etc/containerd/config.toml"].content; !strings.HasPrefix(c, want) {
			t.Errorf("%s has a configuration that starts %.20q", runtime, c)
		}
	}
	k3s := provisioned(Spec{Runtime: RuntimeK3s})
	for path, want := range map[string]bool{
		"/usr/local/bin/k3s": true, "/var/lib/rancher/k3s/data/current/bin/containerd": true, "/etc/systemd/system/k3s.service": true,
		"/usr/bin/containerd": false, "/etc/containerd/config.toml": false, "/etc/systemd/system/containerd.service": false,
	} {
		if _, has := k3s[path]; has != want {
			t.Errorf("a k3s node has %s: %v, want %v", path, has, want)
		}
	}
	if c := k3s["/etc/kubernetes/kubelet-config.yaml"].content; !strings.Contains(c, "unix:///run/k3s/containerd/containerd.sock") {
		t.Error("the kubelet of a k3s node asks another containerd")
	}
	if got := labelFlag(map[string]string{"b": "2", "a": "1"}); !strings.HasSuffix(got, "--node-labels=a=1,b=2") {
		t.Errorf("labels %q", got)
	}
}

// TestHidden: nothing of the machine's own work is seen in a node.
func TestHidden(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/data": true, "/data/x": true, "/usr/bin/env": false, "/etc/passwd": false} {
		if hidden(path) != want {
			t.Errorf("hidden(%q) = %v", path, !want)
		}
	}
}
