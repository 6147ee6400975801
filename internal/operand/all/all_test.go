package all

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settings are of an ordinary installation.
func settings() operand.Settings {
	return operand.Settings{
		Namespace: names.DefaultNamespace, Image: "registry.example/gpu-node:1", PullPolicy: corev1.PullIfNotPresent,
		PullSecrets: []string{"pull"}, SysfsRoot: "/sys", ProcfsRoot: "/proc",
	}
}

// policy reads a spec.
func policy(t *testing.T, spec string) *v1.ClusterPolicy {
	t.Helper()
	p := &v1.ClusterPolicy{}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// folders are the folders of the table's rows.
func folders() []string {
	return []string{"inspector", "driver", "toolkit", "deviceplugin", "discovery", "exporter"}
}

// TestGoldens renders every operand with default settings and with everything
// that a policy can say about pods.
func TestGoldens(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{
		"default": "{}",
		"everything": `{
			operator: {runtimeClass: gpu, labels: {team: ml}, annotations: {note: x}},
			daemonsets: {labels: {cost: gpu}, annotations: {a: b}, priorityClassName: high, updateStrategy: OnDelete,
			  tolerations: [{key: dedicated, operator: Exists}, {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]},
			driver: {repository: registry.example/nvidia, image: driver, version: '550.163.01', useOpenKernelModules: true,
			  env: [{name: B, value: '2'}, {name: A, value: '1'}], startupProbe: {failureThreshold: 5}},
			toolkit: {installDir: /opt/nvidia, env: [{name: CONTAINERD_CONFIG, value: /etc/c.toml}], resources: {limits: {memory: 64Mi}}},
			devicePlugin: {imagePullSecrets: [mine, pull], args: [--verbose]},
			gfd: {hostNetwork: true},
			dcgmExporter: {annotations: {scrape: 'true'}, service: {type: NodePort, internalTrafficPolicy: Cluster}},
			mig: {strategy: mixed}, hostPaths: {kubeletRootDir: /data/kubelet}}`,
	} {
		for i, row := range Table() {
			t.Run(name+"/"+folders()[i], func(t *testing.T) {
				t.Parallel()
				var b strings.Builder
				for _, o := range row.Objects(operand.Input{Settings: settings(), Policy: policy(t, spec)}) {
					data, err := yaml.Marshal(o)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&b, "---\n%s", data)
				}
				golden := filepath.Join("..", folders()[i], "testdata", name+".yaml")
				if *update {
					if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(string(want), b.String()); d != "" {
					t.Errorf("objects (-want +got):\n%s", d)
				}
			})
		}
	}
}

// TestPrivilegeAndCredentialsNeverMeet holds every pod to the law, whatever the
// policy says.
func TestPrivilegeAndCredentialsNeverMeet(t *testing.T) {
	t.Parallel()
	for _, o := range Objects(operand.Input{Settings: settings(), Policy: policy(t, "{}")}) {
		ds, ok := o.(*appsv1.DaemonSet)
		if !ok {
			continue
		}
		pod := ds.Spec.Template.Spec
		token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		for _, c := range pod.Containers {
			privileged := c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
			if privileged && token {
				t.Errorf("%s is privileged and holds a token", ds.Name)
			}
			if !privileged && (len(c.SecurityContext.Capabilities.Drop) != 1 || c.SecurityContext.Capabilities.Drop[0] != "ALL") {
				t.Errorf("%s keeps capabilities", ds.Name)
			}
			if !privileged && pod.HostPID {
				t.Errorf("%s sees the host's processes without need", ds.Name)
			}
			for _, m := range c.VolumeMounts {
				if !privileged && m.MountPath == names.HostMount && !m.ReadOnly {
					t.Errorf("%s may write the host", ds.Name)
				}
			}
		}
	}
}

// TestTheSameInputGivesTheSameBytes renders many times: maps have no order, objects must.
func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	spec := `{daemonsets: {labels: {a: b, c: d, e: f}}, toolkit: {env: [{name: Z, value: z}, {name: A, value: a}, {name: M, value: m}]}}`
	render := func() string {
		var b strings.Builder
		for _, o := range Objects(operand.Input{Settings: settings(), Policy: policy(t, spec)}) {
			data, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(data)
		}
		return b.String()
	}
	first := render()
	for range 100 {
		if render() != first {
			t.Fatal("two renderings of the same policy differ")
		}
	}
}

func TestUndoKeepsEverythingButTheVerb(t *testing.T) {
	t.Parallel()
	in := operand.Input{Settings: settings(), Policy: policy(t, "{}")}
	undo := in
	undo.Undo = true
	var row Operand
	for _, r := range Table() {
		if r.DaemonSet == names.DaemonSetToolkit {
			row = r
		}
	}
	run, ok1 := row.Objects(in)[0].(*appsv1.DaemonSet)
	back, ok2 := row.Objects(undo)[0].(*appsv1.DaemonSet)
	if !ok1 || !ok2 {
		t.Fatal("the toolkit is no DaemonSet")
	}
	a, b := run.Spec.Template.Spec.Containers[0], back.Spec.Template.Spec.Containers[0]
	if b.Args[1] != "uninstall" || a.Args[1] != "run" {
		t.Errorf("arguments %v and %v", a.Args, b.Args)
	}
	if d := cmp.Diff(a.Env, b.Env); d != "" {
		t.Errorf("environment differs:\n%s", d)
	}
}
