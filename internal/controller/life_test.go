package controller

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// counter counts a client's requests, watches and leases apart.
type counter struct {
	next http.RoundTripper

	mu   sync.Mutex
	seen []string
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" && !strings.Contains(r.URL.Path, "/leases/") {
		c.mu.Lock()
		c.seen = append(c.seen, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// since returns what was asked after the first n requests.
func (c *counter) since(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen[n:]...)
}

// operator runs the operator against the API server, with the service account's
// own rights, until the test ends.
func (a *apiServer) operator(t *testing.T) *counter {
	t.Helper()
	requests := &counter{}
	cfg := rest.CopyConfig(a.config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + names.DefaultNamespace + ":" + names.ServiceAccountOperator}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { requests.next = next; return requests })
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, cfg, Options{
			Settings: operand.Settings{
				Namespace: names.DefaultNamespace, Image: "gpu-node:test", PullPolicy: corev1.PullIfNotPresent, SysfsRoot: "/sys", ProcfsRoot: "/proc",
			},
			MetricsAddr: "0", HealthAddr: "0", StatusEvery: 50 * time.Millisecond, Now: time.Now,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	return requests
}

// gpuNode makes a Node in boot b1 and waits for its GPUNode.
func (a *apiServer) gpuNode(t *testing.T, name string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	if err := a.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	n.Status.NodeInfo.BootID = "b1"
	if err := a.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	a.eventually(t, "a GPUNode for "+name, func(ctx context.Context) string {
		var g v1alpha1.GPUNode
		if err := a.Get(ctx, client.ObjectKey{Name: name}, &g); err != nil {
			return err.Error()
		}
		return ""
	})
}

// facts are what an inspector reports of a node with one GPU.
func facts(driver, toolkit bool) map[string]any {
	s := map[string]any{
		"facts":      map[string]any{"bootID": "b1", "kernel": "6.8", "arch": "amd64", "runtimeStartedAt": int64(7)},
		"pciScanned": true, "gpuCount": int64(1), "drift": "None",
		"pciGPUs": []any{map[string]any{"address": "0000:19:00.0", "deviceID": "2330"}},
		"driver":  map[string]any{"kind": "None", "ready": false, "reason": "DriverNotLoaded", "message": "module nvidia is not loaded"},
	}
	if driver {
		s["driver"] = map[string]any{"kind": "Host", "root": "/", "loadedVersion": "550.1", "libraryVersion": "550.1", "ready": true}
	}
	if toolkit {
		s["evidence"] = []any{map[string]any{
			"step": "container-toolkit", "bootID": "b1", "ready": true, "phase": "Applied", "driverVersion": "550.1",
			"runtimeStartedAt": int64(7), "handlers": []any{"nvidia", "nvidia-management", "runc"},
		}}
		s["cdi"] = []any{map[string]any{"path": "/var/run/cdi/nvidia.com-gpu.yaml", "kind": "nvidia.com/gpu", "devices": int64(3), "driverVersion": "550.1"}}
		s["hostChanges"] = []any{map[string]any{"path": "/etc/containerd/conf.d/99-nvidia.toml", "action": "Created"}}
	}
	return s
}

// gates waits until the open gates of a node are exactly want.
func (a *apiServer) gates(t *testing.T, node string, want ...string) {
	t.Helper()
	a.eventually(t, fmt.Sprintf("open gates of %s are %v", node, want), func(ctx context.Context) string {
		var n corev1.Node
		if err := a.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
			return err.Error()
		}
		open := map[string]bool{}
		for k, v := range n.Labels {
			if strings.HasPrefix(k, names.GatePrefix) && v == names.GateOpen {
				open[strings.TrimPrefix(k, names.GatePrefix)] = true
			}
		}
		for _, w := range want {
			if !open[w] {
				return fmt.Sprintf("open are %v", open)
			}
		}
		if len(open) != len(want) {
			return fmt.Sprintf("open are %v", open)
		}
		return ""
	})
}

// stage waits until a GPUNode is at a stage, with a reason.
func (a *apiServer) stage(t *testing.T, node, stage, reason string) {
	t.Helper()
	a.eventually(t, node+" is at "+stage, func(ctx context.Context) string {
		var g v1alpha1.GPUNode
		if err := a.Get(ctx, client.ObjectKey{Name: node}, &g); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		if g.Status.Stage != stage || c == nil || c.Reason != reason {
			return fmt.Sprintf("stage %q, condition %+v", g.Status.Stage, c)
		}
		return ""
	})
}

// must reports as the inspector, or ends the test.
func (a *apiServer) must(t *testing.T, node string, status map[string]any) {
	t.Helper()
	if err := report(t.Context(), a, node, status); err != nil {
		t.Fatal(err)
	}
}

// TestLifeOfANode opens gates in order, closes them on evidence, respects a
// person's word, says why, and comes to rest.
func TestLifeOfANode(t *testing.T) {
	a := newAPIServer(t)
	requests := a.operator(t)
	policy := &v1.ClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster-policy"}}
	if err := a.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.gpuNode(t, "n1")
	a.stage(t, "n1", v1alpha1.StageUnknown, v1alpha1.ReasonNodeNotInspected)

	a.must(t, "n1", facts(false, false))
	a.gates(t, "n1", "driver")
	a.stage(t, "n1", v1alpha1.StageDriver, v1alpha1.ReasonDriverNotReady)

	a.must(t, "n1", facts(true, false))
	a.gates(t, "n1", "container-toolkit") // the driver's gate says pre-installed now
	a.stage(t, "n1", v1alpha1.StageToolkit, v1alpha1.ReasonToolkitNotReady)

	a.must(t, "n1", facts(true, true))
	a.gates(t, "n1", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm-exporter")
	a.stage(t, "n1", v1alpha1.StageDevicePlugin, v1alpha1.ReasonNoAllocatable)

	// A person's word on one step, and the driver that goes.
	label := func(key, value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
		if err := a.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	label(names.GateExporter, `"false"`)
	a.gates(t, "n1", "container-toolkit", "device-plugin", "gpu-feature-discovery")
	a.must(t, "n1", facts(false, true))
	a.gates(t, "n1", "driver")
	a.must(t, "n1", facts(true, true))
	a.gates(t, "n1", "container-toolkit", "device-plugin", "gpu-feature-discovery")

	a.second(t)
	a.rest(t, requests)
	a.goes(t, policy)
}

// second is refused by name.
func (a *apiServer) second(t *testing.T) {
	t.Helper()
	other := &v1.ClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if err := a.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	a.eventually(t, "the second policy is ignored", func(ctx context.Context) string {
		if err := a.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(other.Status.Conditions, v1alpha1.ConditionPolicyReady)
		if other.Status.State != v1.StateIgnored || c == nil || !strings.Contains(c.Message, `"cluster-policy"`) {
			return fmt.Sprintf("status %+v", other.Status)
		}
		return ""
	})
	if err := a.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
}

// rest: after the last event no request is made but watches and leases, though
// nodes go on sending heartbeats.
func (a *apiServer) rest(t *testing.T, requests *counter) {
	t.Helper()
	last := -1
	a.eventually(t, "the operator comes to rest", func(context.Context) string {
		n := len(requests.since(0))
		if n != last {
			last = n
			return fmt.Sprintf("%d requests", n)
		}
		return ""
	})
	for beat := range 20 {
		var n corev1.Node
		if err := a.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Unix(int64(1000+beat), 0)),
		}}
		if err := a.Status().Update(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
	}
	// The operator's watch is behind ours by an unknown moment: a change that it must
	// act on comes after the beats, and everything before it has been seen by then.
	before := len(requests.since(0))
	a.must(t, "n1", facts(false, true))
	a.gates(t, "n1", "driver")
	for _, r := range requests.since(before) {
		if !strings.Contains(r, "n1") && !strings.Contains(r, "events") && !strings.Contains(r, "clusterpolicies") {
			t.Errorf("request without a cause: %s", r)
		}
	}
	a.must(t, "n1", facts(true, true))
	a.gates(t, "n1", "container-toolkit", "device-plugin", "gpu-feature-discovery")
}

// goes: the policy is deleted, step by step, and leaves nothing.
func (a *apiServer) goes(t *testing.T, policy *v1.ClusterPolicy) {
	t.Helper()
	if err := a.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.gates(t, "n1", "container-toolkit")
	a.eventually(t, "the toolkit is told to undo", func(ctx context.Context) string {
		var ds appsv1.DaemonSet
		if err := a.Get(ctx, client.ObjectKey{Namespace: names.DefaultNamespace, Name: names.DaemonSetToolkit}, &ds); err != nil {
			return err.Error()
		}
		if args := ds.Spec.Template.Spec.Containers[0].Args; len(args) != 2 || args[1] != "uninstall" {
			return fmt.Sprintf("arguments %v", args)
		}
		return ""
	})
	undone := facts(true, true)
	delete(undone, "hostChanges")
	undone["evidence"] = []any{map[string]any{"step": "container-toolkit", "bootID": "b1", "ready": true, "phase": "Undone"}}
	a.must(t, "n1", undone)
	a.eventually(t, "the policy is gone", func(ctx context.Context) string {
		if err := a.Get(ctx, client.ObjectKeyFromObject(policy), policy); client.IgnoreNotFound(err) != nil {
			return err.Error()
		} else if err == nil {
			return fmt.Sprintf("status %+v", policy.Status.Conditions)
		}
		return ""
	})
	var left appsv1.DaemonSetList
	if err := a.List(t.Context(), &left, client.InNamespace(names.DefaultNamespace)); err != nil {
		t.Fatal(err)
	}
	for _, ds := range left.Items {
		t.Errorf("DaemonSet %s is left", ds.Name)
	}
	var n corev1.Node
	if err := a.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		t.Fatal(err)
	}
	for k, v := range n.Labels {
		if strings.HasPrefix(k, names.Group+"/") && v != "false" {
			t.Errorf("label %s=%s is left", k, v)
		}
	}
	if n.Labels[names.GateExporter] != "false" {
		t.Errorf("the person's false is gone: %v", n.Labels)
	}
	if v, has := n.Annotations[names.AnnotationGates]; has {
		t.Errorf("annotation %q is left", v)
	}
}
