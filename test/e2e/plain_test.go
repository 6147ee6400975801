package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plainPods are Pods that have nothing to do with GPUs and run on every node
// through everything that the stories do to it: node -> Pod.
func plainPods() map[string]string {
	return map[string]string{hostNode: "plain-host", bareNode: "plain-bare", cpuNode: "plain-cpu"}
}

// applyKnownPlainPods starts them and remembers their containers.
func (c *cluster) applyKnownPlainPods(t *testing.T) {
	t.Helper()
	c.plain = map[string]string{}
	for node, name := range plainPods() {
		c.start(t, podSpec{name: name, node: node, command: "exec sleep 100000", stays: true}, corev1.PodRunning, 2*time.Minute)
		c.plain[name] = c.container(t, name)
	}
}

// container is the identity of a Pod's container: its id and how often it was restarted.
func (c *cluster) container(t *testing.T, name string) string {
	t.Helper()
	var p corev1.Pod
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Status.ContainerStatuses) != 1 {
		t.Fatalf("pod %s has %d container statuses", name, len(p.Status.ContainerStatuses))
	}
	s := p.Status.ContainerStatuses[0]
	return fmt.Sprintf("%s restarts=%d running=%v", s.ContainerID, s.RestartCount, s.State.Running != nil)
}

// plainPodsUntouched fails when a plain Pod's container is not the one that ran before.
func (c *cluster) plainPodsUntouched(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		name := plainPods()[node]
		if got := c.container(t, name); got != c.plain[name] {
			t.Errorf("plain pod %s on %s: %s, was %s", name, node, got, c.plain[name])
		}
	}
}

// starts is how often the unit of containerd was started on a node in this boot, by systemd's own count.
func (c *cluster) starts(t *testing.T, node string) int {
	t.Helper()
	var n int
	out := c.lab(t, "exec", node, "--", "sh", "-c",
		fmt.Sprintf("journalctl -b -u %[1]s -o cat | grep -c '^Started %[1]s' || true", runtimeUnit(node)))
	if _, err := fmt.Sscan(out, &n); err != nil {
		t.Fatalf("counting containerd starts on %s: %q: %v", node, out, err)
	}
	return n
}

// runtimeUnit is the unit that runs a node's containerd.
func runtimeUnit(node string) string {
	if node == k3sNode {
		return "k3s.service"
	}
	return "containerd.service"
}

// policyReady waits until the ClusterPolicy says ready.
func (c *cluster) policyReady(t *testing.T, within time.Duration) {
	t.Helper()
	c.eventually(t, within, "the ClusterPolicy is ready", func(ctx context.Context) string {
		p, err := c.policy(ctx)
		if err != nil {
			return err.Error()
		}
		if p.Status.State != "ready" {
			return fmt.Sprintf("state %q, conditions %+v", p.Status.State, p.Status.Conditions)
		}
		return ""
	})
}
