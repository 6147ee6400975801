package toolkit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/plan"
)

func payload() map[string]plan.Source {
	out := map[string]plan.Source{}
	for _, name := range PayloadNames() {
		out[name] = plan.Source{Name: name, Hash: plan.HashBytes([]byte(name)), Size: int64(len(name))}
	}
	return out
}

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == key {
				return v
			}
		}
		return ""
	}
}

// configOf returns the parsed configuration of a handler.
func configOf(t *testing.T, steps []plan.Step, handler string) map[string]any {
	t.Helper()
	for _, s := range steps {
		if s.Path == "/usr/local/nvidia/toolkit/.config/"+handler+"/config.toml" {
			out := map[string]any{}
			if err := toml.Unmarshal(s.Content, &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Fatalf("no configuration for %q", handler)
	return nil
}

// TestIsolation: the handler for workloads never takes devices from the environment
// or from mounts, which any image and Pod can set; only the management handler does,
// and of its own kind.
func TestIsolation(t *testing.T) {
	tests := []struct {
		name       string
		handler    string
		runtime    Runtime
		acceptsEnv bool
		kind       string
		prefixes   []any // annotations that name devices
	}{
		{"workload, containerd injects", BinaryRuntime, Runtime{NativeCDI: true}, false, "nvidia.com/gpu", nil},
		{"workload, old containerd", BinaryRuntime, Runtime{}, false, "nvidia.com/gpu", []any{"cdi.k8s.io/"}},
		{"management", BinaryRuntimeManagement, Runtime{}, true, "management.nvidia.com/gpu", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := FromEnv(env())
			if err != nil {
				t.Fatal(err)
			}
			steps, err := Desire(o, payload(), tt.runtime)
			if err != nil {
				t.Fatal(err)
			}
			c := configOf(t, steps, tt.handler)
			cdi := c["nvidia-container-runtime"].(map[string]any)["modes"].(map[string]any)["cdi"].(map[string]any)
			got := []any{
				c["accept-nvidia-visible-devices-envvar-when-unprivileged"], c["accept-nvidia-visible-devices-as-volume-mounts"],
				c["nvidia-container-runtime"].(map[string]any)["mode"], cdi["default-kind"], slices.Equal(cdi["annotation-prefixes"].([]any), tt.prefixes),
			}
			if diff := cmp.Diff([]any{tt.acceptsEnv, false, "cdi", tt.kind, true}, got); diff != "" {
				t.Errorf("accepts env, accepts mounts, mode, kind, annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOrder: a launcher never stands without what it calls.
func TestOrder(t *testing.T) {
	o, _ := FromEnv(env())
	steps, err := Desire(o, payload(), Runtime{LowLevel: "/usr/bin/crun"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(suffix string) int {
		return slices.IndexFunc(steps, func(s plan.Step) bool { return strings.HasSuffix(s.Path, suffix) })
	}
	if real, launcher := at("/"+BinaryRuntimeReal), at("/"+BinaryRuntime); real < 0 || launcher < real {
		t.Errorf("launcher at %d, what it calls at %d", launcher, real)
	}
	runtimes := configOf(t, steps, BinaryRuntime)["nvidia-container-runtime"].(map[string]any)["runtimes"]
	if diff := cmp.Diff([]any{"/usr/bin/crun", "runc", "crun"}, runtimes); diff != "" {
		t.Errorf("low-level runtimes (-want +got):\n%s", diff)
	}
	lacking := payload()
	delete(lacking, BinaryCTK)
	if _, err := Desire(o, lacking, Runtime{}); fault.ReasonOf(err, "") != fault.ReasonPayloadMissing {
		t.Errorf("Desire without %s = %v", BinaryCTK, err)
	}
}

func TestFromEnv(t *testing.T) {
	o, err := FromEnv(env("ROOT=/opt/nvidia", "CONTAINERD_CONFIG=/etc/c.toml", "RUNTIME_DROP_IN_CONFIG=/etc/c.d/x.toml", "CONTAINERD_SOCKET=/run/c.sock", "CONTAINERD_RUNTIME_CLASS=gpu", "CONTAINERD_SET_AS_DEFAULT=true"))
	want := Options{InstallDir: "/opt/nvidia", RuntimeConfig: "/etc/c.toml", DropIn: "/etc/c.d/x.toml", Socket: "/run/c.sock", Handler: "gpu", SetAsDefault: true}
	if err != nil || o != want {
		t.Errorf("FromEnv = %+v, %v; want %+v", o, err, want)
	}
	if o.Dir() != "/opt/nvidia/toolkit" || !slices.Equal(o.Handlers(), []string{"gpu", "nvidia-cdi", "nvidia-legacy", "nvidia-management"}) {
		t.Errorf("Dir %q, Handlers %q", o.Dir(), o.Handlers())
	}
	for _, bad := range []string{
		"ROOT=relative", "ROOT=/", "ROOT=/a/../b", "CONTAINERD_CONFIG=x", "RUNTIME_DROP_IN_CONFIG=/etc/x.conf", "RUNTIME=crio",
		"NVIDIA_RUNTIME_SET_AS_DEFAULT=maybe", "CONTAINERD_RUNTIME_CLASS=nvidia-management", "CONTAINERD_RUNTIME_CLASS=runc",
	} {
		if o, err := FromEnv(env(bad)); err == nil {
			t.Errorf("%s gives %+v", bad, o)
		}
	}
}

func TestFromPolicy(t *testing.T) {
	o, enabled, err := FromPolicy([]byte("kind: ClusterPolicy\nspec:\n  operator: {runtimeClass: gpu}\n  toolkit:\n    installDir: /opt/n\n    env:\n    - {name: CONTAINERD_CONFIG, value: /etc/x.toml}\n"))
	if err != nil || !enabled || o.InstallDir != "/opt/n" || o.Handler != "gpu" || o.RuntimeConfig != "/etc/x.toml" {
		t.Errorf("FromPolicy = %+v, %v, %v", o, enabled, err)
	}
	if _, enabled, err = FromPolicy([]byte("kind: ClusterPolicy\nspec: {toolkit: {enabled: false}}\n")); err != nil || enabled {
		t.Errorf("a toolkit that is switched off: %v, %v", enabled, err)
	}
	for _, bad := range []string{"kind: Pod\n", "{", "kind: ClusterPolicy\nspec: {toolkit: {installDir: x}}\n"} {
		if o, _, err := FromPolicy([]byte(bad)); err == nil {
			t.Errorf("%q gives %+v", bad, o)
		}
	}
}
