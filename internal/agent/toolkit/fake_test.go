package toolkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/host"
	"gpu-operator/internal/host/daemon"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/cdi"
	"gpu-operator/internal/nodeconf/containerd"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// node is a host in a directory with a runtime that reads its configuration from there.
type node struct {
	t    *testing.T
	dir  string
	root *host.Root
	rt   *fakeRuntime
	deps Deps
	cfg  Config
	now  time.Time
}

const bootA = "11111111-2222-3333-4444-555555555555"

// newNode makes a host with a containerd 2.4.2 that imports conf.d, and a driver.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	n.write("etc/containerd/config.toml", "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")
	n.write("proc/sys/kernel/random/boot_id", bootA+"\n")
	n.write("dev/nvidiactl", "")
	n.write("dev/nvidia0", "")
	n.write("var/lib/x", "")
	n.write("run/containerd/x", "")
	n.write("usr/local/x", "")
	must(t, os.Symlink("/run", filepath.Join(n.dir, "var/run")))
	root, err := host.OpenRoot(n.dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	n.root = root
	n.rt = &fakeRuntime{root: root, start: 100, unit: daemon.Unit{Name: "containerd.service", KillMode: "process"}, containers: map[string]string{"c1": "default/web/app"}}
	must(t, n.rt.load())
	payload := memPayload{}
	manifest := map[string]plan.Source{}
	for _, name := range toolkit.PayloadNames() {
		payload[name] = []byte("binary " + name)
		manifest[name] = plan.Source{Name: name, Hash: plan.HashBytes(payload[name]), Size: int64(len(payload[name]))}
	}
	options, err := toolkit.FromEnv(func(string) string { return "" })
	must(t, err)
	n.cfg = Config{HostRoot: n.dir, Options: options, UninstallDeadline: time.Minute}
	n.deps = Deps{
		Root: root, Runtime: n.rt, Specs: fakeSpecs{}, Payload: payload, Manifest: manifest,
		Driver: func() v1alpha1.DriverState {
			return v1alpha1.DriverState{Kind: "Host", Root: "/", LoadedVersion: "550.1", LibraryVersion: "550.1", Ready: true}
		},
		KubeletSocket: func() string { return n.rt.kubelet },
		Now:           func() time.Time { return n.now },
		Pause:         func(_ context.Context, d time.Duration) { n.now = n.now.Add(d) },
	}
	return n
}

func (n *node) write(name, text string) {
	n.t.Helper()
	p := filepath.Join(n.dir, name)
	must(n.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(n.t, os.WriteFile(p, []byte(text), 0o644))
}

func (n *node) read(name string) string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, name))
	must(n.t, err)
	return string(data)
}

// evidence returns what the agent left on the host.
func (n *node) evidence() v1alpha1.StepEvidence {
	n.t.Helper()
	e, err := facts.ParseEvidence([]byte(n.read("run/nvidia/gpu-operator/container-toolkit.json")))
	must(n.t, err)
	return e
}

// fakeRuntime reads its configuration at start only, as containerd does.
type fakeRuntime struct {
	root       *host.Root
	start      int64
	restarts   int
	unit       daemon.Unit
	handlers   map[string]daemon.Handler
	containers map[string]string
	pods       []daemon.Sandbox
	down       bool
	name       string // "" is containerd
	kubelet    string
	// breaks makes a start with our handlers fail, as a daemon that cannot read them does.
	breaks bool
	// blind makes the dump lack our handlers.
	blind bool
	// k3s is the configuration that a distribution renders at each start; "" means an
	// ordinary containerd; render makes it.
	k3s    string
	render func() string
}

// file is the daemon's configuration file.
func (f *fakeRuntime) file() string {
	if f.k3s != "" {
		return f.k3s
	}
	return names.ContainerdConfig
}

// rendered is what a distribution writes at a start: its base, the user's template
// around it, and a handler for NVIDIA's runtime where it finds one.
func (f *fakeRuntime) rendered(base string) string {
	if real := "/usr/local/nvidia/toolkit/nvidia-container-runtime"; f.root.Exists(real) {
		base += "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.\"nvidia\"]\nruntime_type = \"io.containerd.runc.v2\"\n" +
			"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.\"nvidia\".options]\nBinaryName = \"" + real + "\"\n"
	}
	data, err := f.root.ReadFile(strings.Replace(f.k3s, "config.toml", "config-v3.toml.tmpl", 1), 1<<20)
	if err != nil {
		return base
	}
	return strings.Replace(string(data), "{{ template \"base\" . }}", base, 1)
}

// config merges the root file and its imports as containerd 2.1 and later do.
func (f *fakeRuntime) config(file string) (map[string]any, error) {
	data, err := f.root.ReadFile(file, 1<<20)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := toml.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	patterns, err := containerd.Imports(file, data)
	if err != nil {
		return nil, err
	}
	for _, p := range patterns {
		paths, err := f.root.Glob(p)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			data, err := f.root.ReadFile(p, 1<<20)
			if err != nil {
				return nil, err
			}
			over := map[string]any{}
			if err := toml.Unmarshal(data, &over); err != nil {
				return nil, err
			}
			merge(out, over)
		}
	}
	return out, nil
}

func merge(into, from map[string]any) {
	for k, v := range from {
		a, okA := into[k].(map[string]any)
		b, okB := v.(map[string]any)
		if okA && okB {
			merge(a, b)
			continue
		}
		into[k] = v
	}
}

// load makes the daemon know what its configuration says now.
func (f *fakeRuntime) load() error {
	if f.render != nil {
		if err := os.WriteFile(filepath.Join(f.root.Dir(), f.k3s), []byte(f.render()), 0o644); err != nil {
			return err
		}
	}
	c, err := f.config(f.file())
	if err != nil {
		return err
	}
	f.handlers = map[string]daemon.Handler{"runc": {Name: "runc"}}
	runtimes := c
	for _, k := range []string{"plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes"} {
		runtimes, _ = runtimes[k].(map[string]any)
	}
	for name, v := range runtimes {
		options, _ := v.(map[string]any)["options"].(map[string]any)
		f.handlers[name] = daemon.Handler{Name: name, Options: options}
	}
	return nil
}

func (f *fakeRuntime) Look(context.Context) (Live, error) {
	if f.down {
		return Live{}, errors.New("connection refused")
	}
	name := f.name
	if name == "" {
		name = "containerd"
	}
	return Live{
		Process: daemon.Process{PID: 1, StartedAt: f.start, Executable: "/usr/bin/containerd", Config: f.k3s},
		Status:  daemon.Status{Name: name, Version: "v2.4.2", Ready: true, Handlers: f.handlers},
		Unit:    f.unit,
	}, nil
}

func (f *fakeRuntime) Dump(_ context.Context, _, config string) ([]byte, error) {
	c, err := f.config(config)
	if err != nil {
		return nil, err
	}
	if f.blind {
		delete(c, "plugins")
	}
	var b bytes.Buffer
	err = toml.NewEncoder(&b).Encode(c)
	return b.Bytes(), err
}

func (f *fakeRuntime) Restart(context.Context, daemon.Unit) error {
	f.restarts++
	f.start += 50
	if err := f.load(); err != nil {
		return err
	}
	_, ours := f.handlers[names.RuntimeManagement]
	f.down = f.breaks && ours
	if f.down {
		return fmt.Errorf("systemd's job ended with %q", "failed")
	}
	return nil
}

func (f *fakeRuntime) Running(context.Context) (map[string]string, error) { return f.containers, nil }

func (f *fakeRuntime) Sandboxes(context.Context, []string, string) ([]daemon.Sandbox, error) {
	return f.pods, nil
}

// fakeSpecs writes the driver's key as a spec.
type fakeSpecs struct{}

func (fakeSpecs) Generate(s cdi.Spec, d cdi.Driver) ([]byte, error) {
	return []byte(s.Kind + " " + d.Key() + "\n"), nil
}

type memPayload map[string][]byte

func (p memPayload) OpenPayload(name string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(p[name])), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func daemonUnit() daemon.Unit { return daemon.Unit{Name: "containerd.service"} }
