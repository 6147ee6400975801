package containerd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/internal/names"
)

// TestRenderedIsWhatTheDistributionMakes: what is rehearsed for k0s before 1.36 and
// for MicroK8s holds everything that was there, gives each handler its binary, and is
// the same once the distribution has taken our part in.
func TestRenderedIsWhatTheDistributionMakes(t *testing.T) {
	t.Parallel()
	const cri = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"pause\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"runc\"\n" +
		"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
	const snap = "/var/snap/microk8s/current/args/"
	w := k3sWant("/usr/local/nvidia/toolkit")
	w.Handlers = append(w.Handlers, Handler{Name: "nvidia-cdi", Binary: w.Handlers[0].Binary, Alias: true})
	for name, f := range map[string]Facts{
		"k0s": {
			Distribution: names.DistributionK0s, Version: "1.7.29", Root: File{Path: "/etc/k0s/containerd.toml", Exists: true, Data: []byte(k0sMark + "\nversion = 2\nimports = [\"/run/k0s/containerd-cri.toml\"]\n")},
			Imported: []File{{Path: "/run/k0s/containerd-cri.toml", Exists: true, Data: []byte(cri)}},
		},
		"MicroK8s": {
			Distribution: names.DistributionMicroK8s, Version: "1.7.29", Root: File{Path: snap + "containerd.toml", Exists: true, Data: []byte(cri)},
			Templates: []File{{Path: snap + "containerd-template.toml", Exists: true, Data: []byte("# ${SNAP}\n" + cri)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, err := Decide(f, w)
			if err != nil {
				t.Fatal(err)
			}
			if err := Proves(first.Rendered, w.Handlers); err != nil {
				t.Errorf("rehearsed:\n%s\n%v", first.Rendered, err)
			}
			before, _ := parse("", []byte(cri))
			after, err := parse("", first.Rendered)
			if err != nil {
				t.Fatal(err)
			}
			runtimes := table(after.top, "plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes")
			for _, h := range w.Handlers {
				if on := table(runtimes, h.Name, "options")["SystemdCgroup"]; on != true {
					t.Errorf("handler %s has SystemdCgroup %v", h.Name, on)
				}
				delete(runtimes, h.Name)
			}
			if diff := cmp.Diff(before.top, after.top); diff != "" {
				t.Errorf("without our handlers what is rehearsed is not what was there (-before +after):\n%s", diff)
			}
			taken := f
			if f.Imported != nil {
				taken.Imported = []File{{Path: f.Imported[0].Path, Exists: true, Data: first.Rendered}}
			} else {
				taken.Root.Data = first.Rendered
				text, err := templateEditor{}.Apply(first.Steps[0].Edit.Args, f.Templates[0].Data, true)
				if err != nil {
					t.Fatal(err)
				}
				taken.Templates = []File{{Path: f.Templates[0].Path, Exists: true, Data: text}}
			}
			second, err := Decide(taken, w)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first.Steps, second.Steps); diff != "" {
				t.Errorf("the second decision is another (-first +second):\n%s", diff)
			}
		})
	}
}
