package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
)

// hostDiff is what changed on a node's host since its birth; exit status 1 (there
// is a difference) is an answer, not a failure.
func (c *cluster) hostDiff(t *testing.T, node string) string {
	t.Helper()
	out, err := c.tryLab(t.Context(), "host-diff", node)
	if err != nil && !strings.Contains(err.Error(), "exit status 1") {
		t.Fatalf("host-diff %s: %v", node, err)
	}
	return out
}

// withoutLedger drops the ledger's own lines, which are what makes an undo possible.
func withoutLedger(diff string) string {
	var kept []string
	for line := range strings.SplitSeq(strings.TrimSpace(diff), "\n") {
		if line != "" && !strings.Contains(line, names.StateDir) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// restartPod deletes the pod of a DaemonSet on a node and waits for its successor to be ready.
func (c *cluster) restartPod(t *testing.T, node, app string) {
	t.Helper()
	var old corev1.Pod
	for _, p := range c.operandPods(t.Context(), t, node) {
		if p.Labels[names.LabelApp] == app {
			old = p
		}
	}
	if old.Name == "" {
		t.Fatalf("no pod of %s on %s", app, node)
	}
	if err := c.Delete(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	c.eventually(t, 2*time.Minute, "the successor of "+old.Name+" is ready", func(ctx context.Context) string {
		for _, p := range c.operandPods(ctx, t, node) {
			if p.Labels[names.LabelApp] == app && p.UID != old.UID && podReady(p) {
				return ""
			}
		}
		return "no ready pod of " + app
	})
}

// podReady is the pod's Ready condition.
func podReady(p corev1.Pod) bool {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

func unchangedHostIsLeftAlone(t *testing.T, c *cluster) {
	for _, node := range []string{hostNode, bareNode} {
		before, starts := c.hostDiff(t, node), c.starts(t, node)
		if withoutLedger(before) == "" {
			t.Errorf("%s: the toolkit changed nothing on the host: host-diff shows nothing", node)
		}
		c.restartPod(t, node, names.DaemonSetToolkit)
		if after := c.hostDiff(t, node); after != before {
			t.Errorf("%s: a new toolkit pod changed the host:\nbefore:\n%s\nafter:\n%s", node, before, after)
		}
		if n := c.starts(t, node); n != starts {
			t.Errorf("%s: a new toolkit pod restarted containerd: %d starts, were %d", node, n, starts)
		}
		c.diffs[node] = before
	}
	c.plainPodsUntouched(t, hostNode, bareNode, cpuNode)
}

func removalLeavesHostsAsBorn(t *testing.T, c *cluster) {
	starts := map[string]int{}
	gpuNodes := []string{hostNode, bareNode, oldNode, k3sNode}
	for _, node := range gpuNodes {
		starts[node] = c.starts(t, node)
		if name, has := plainPods()[node]; has {
			c.plain[name] = c.container(t, name)
		}
	}
	c.lab(t, "kubectl", "--", "delete", "clusterpolicy", policyName, "--wait=true", "--timeout=300s")
	for _, node := range gpuNodes {
		n, err := c.node(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range n.Labels {
			if strings.HasPrefix(k, names.Group+"/") {
				t.Errorf("%s keeps label %s=%s", node, k, v)
			}
		}
		if q := n.Status.Allocatable[names.ResourceGPU]; q.Value() != 0 {
			t.Errorf("%s still advertises %s GPUs", node, q.String())
		}
		if left := withoutLedger(c.hostDiff(t, node)); left != "" {
			t.Errorf("%s is not as it was born:\n%s", node, left)
		}
		if got := c.starts(t, node) - starts[node]; got != 1 {
			t.Errorf("%s: removal restarted containerd %d times, want once", node, got)
		}
	}
	c.plainPodsUntouched(t, hostNode, bareNode, cpuNode)
	c.start(t, podSpec{name: "after", node: hostNode, command: "echo alive"}, corev1.PodSucceeded, runWithin)
	c.remove(t, "after")
	c.eventually(t, time.Minute, "no operand is left", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		for _, p := range pods.Items {
			if p.Labels[names.LabelApp] != "gpu-operator" {
				return fmt.Sprintf("pod %s", p.Name)
			}
		}
		return ""
	})
}
