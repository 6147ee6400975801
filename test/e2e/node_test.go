package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gpu-operator/internal/names"
)

// lateNode is added while the operator runs.
const lateNode = "gpu-3"

func driverNeverReadySaysWhy(t *testing.T, c *cluster) {
	// A person's false on the driver gate, set as the node joins: no driver will ever
	// answer on this bare node, so the toolkit must not come, and must say why.
	c.lab(t, "node", "add", lateNode, "--gpus", "8xH100-SXM5-80GB", "--driver", "none",
		"--labels", names.GateDriver+"="+names.GateOff)
	c.eventually(t, 2*time.Minute, lateNode+" says why it is not ready", func(ctx context.Context) string {
		g, err := c.gpuNode(ctx, lateNode)
		if err != nil {
			return err.Error()
		}
		for _, gate := range g.Status.Gates {
			if gate.Step == "container-toolkit" && gate.State == "Closed" && strings.Contains(gate.Message, "driver") {
				return ""
			}
		}
		return fmt.Sprintf("gates %+v", g.Status.Gates)
	})
	c.eventually(t, time.Minute, "the ClusterPolicy names the node and the reason", func(ctx context.Context) string {
		p, err := c.policy(ctx)
		if err != nil {
			return err.Error()
		}
		for _, b := range p.Status.BlockedNodes {
			if b.Node == lateNode && b.Reason != "" {
				return ""
			}
		}
		return fmt.Sprintf("blocked nodes %+v", p.Status.BlockedNodes)
	})
	for _, p := range c.operandPods(t.Context(), t, lateNode) {
		if p.Labels[names.LabelApp] != names.DaemonSetInspector {
			t.Errorf("pod %s runs on a node whose driver never answered", p.Name)
		}
	}
}

func addedNodeBecomesReady(t *testing.T, c *cluster) {
	c.lab(t, "kubectl", "--", "label", "node", lateNode, names.GateDriver+"-")
	c.eventually(t, readyWithin, lateNode+" becomes ready with nobody's help", c.allReady(lateNode))
	same(t, c, bareNode, lateNode)
	c.lab(t, "node", "remove", lateNode)
	c.eventually(t, time.Minute, lateNode+" leaves no GPUNode behind", func(ctx context.Context) string {
		if _, err := c.gpuNode(ctx, lateNode); err == nil {
			return "GPUNode is still there"
		}
		return ""
	})
}

// oldNode has the oldest containerd that is supported, and GPUs of another model; it
// stays until everything is removed.
const (
	oldNode = "old-1"
	oldGPUs = 2
)

func oldRuntimeIsServed(t *testing.T, c *cluster) {
	requests := countRequests(t)
	c.lab(t, "node", "add", oldNode, "--gpus", "2xA100-SXM4-80GB", "--driver", "host", "--runtime", "containerd-1.6")
	c.eventually(t, readyWithin, oldNode+" becomes ready", func(ctx context.Context) string { return c.notReady(ctx, oldNode, oldGPUs) })
	t.Logf("requests from the node's birth to its being ready: %s", requests())
	n, err := c.node(t.Context(), oldNode)
	if err != nil {
		t.Fatal(err)
	}
	if v := n.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(v, "containerd://1.6.") {
		t.Errorf("the node's runtime is %q: this story is about containerd 1.6", v)
	}
	c.bothGPUs(t, oldNode)
	c.sneaks(t, oldNode)
}

// k3sNode runs its containerd as k3s does: configured by a file that is rendered at
// each start, on a socket of its own.
const k3sNode = "k3s-1"

const k3sConfig = "/var/lib/rancher/k3s/agent/etc/containerd/"

func renderingNodeIsServed(t *testing.T, c *cluster) {
	c.lab(t, "node", "add", k3sNode, "--gpus", "2xA100-SXM4-80GB", "--driver", "host", "--runtime", "k3s")
	c.eventually(t, readyWithin, k3sNode+" becomes ready", func(ctx context.Context) string { return c.notReady(ctx, k3sNode, oldGPUs) })
	if diff := c.hostDiff(t, k3sNode); !strings.Contains(diff, k3sConfig+"config-v3.toml.d/99-nvidia.toml") || strings.Contains(diff, "config.toml.tmpl") {
		t.Errorf("want the drop-in and no template on the host:\n%s", diff)
	}
	c.bothGPUs(t, k3sNode)
	// A release that renders no import: what worked until then is gone at its start, and
	// the toolkit has to find the other way by itself.
	const without = "/etc/k3slike-without-imports"
	c.lab(t, "exec", k3sNode, "--", "sh", "-c", "touch "+without+" && systemctl restart k3s")
	c.eventually(t, readyWithin, k3sNode+" has the handlers by a template", func(ctx context.Context) string {
		if out, err := c.tryLab(ctx, "exec", k3sNode, "--", "grep", "-l", names.RuntimeManagement, k3sConfig+"config-v3.toml.tmpl", k3sConfig+"config.toml"); err != nil {
			return out + err.Error()
		}
		return c.notReady(ctx, k3sNode, oldGPUs)
	})
	c.bothGPUs(t, k3sNode)
	c.sneaks(t, k3sNode)
	c.lab(t, "exec", k3sNode, "--", "rm", without)
}

// bothGPUs fails when a Pod that asks for all GPUs of a small node does not see them.
func (c *cluster) bothGPUs(t *testing.T, node string) {
	t.Helper()
	c.start(t, podSpec{name: "both", node: node, runtimeClass: names.RuntimeNVIDIA, gpus: oldGPUs, command: listGPUs}, corev1.PodSucceeded, runWithin)
	if out := c.logs(t, "both"); len(uuids(out)) != oldGPUs || !strings.Contains(out, "A100") {
		t.Errorf("a pod that asks for both GPUs of %s saw:\n%s", node, out)
	}
	c.remove(t, "both")
}

// same fails when two nodes built alike do not have the same fingerprint.
func same(t *testing.T, c *cluster, a, b string) {
	t.Helper()
	first, err := c.gpuNode(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.gpuNode(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if first.Status.Fingerprint == nil || second.Status.Fingerprint == nil ||
		first.Status.Fingerprint.Hash != second.Status.Fingerprint.Hash {
		t.Errorf("fingerprints differ:\n%s %+v\n%s %+v", a, first.Status.Fingerprint, b, second.Status.Fingerprint)
	}
}

func rebootedNodeReturns(t *testing.T, c *cluster) {
	before, err := c.gpuNode(t.Context(), bareNode)
	if err != nil {
		t.Fatal(err)
	}
	c.lab(t, "node", "reboot", bareNode)
	c.eventually(t, readyWithin, bareNode+" returns to ready", func(ctx context.Context) string {
		g, err := c.gpuNode(ctx, bareNode)
		if err != nil {
			return err.Error()
		}
		if g.Status.Facts.BootID == before.Status.Facts.BootID {
			return "facts are of the boot before"
		}
		for _, e := range g.Status.Evidence {
			if e.BootID != g.Status.Facts.BootID {
				return "evidence of step " + e.Step + " is of another boot"
			}
		}
		return c.notReady(ctx, bareNode, gpusEach)
	})
	after, err := c.gpuNode(t.Context(), bareNode)
	if err != nil {
		t.Fatal(err)
	}
	if after.Status.Fingerprint.Hash != before.Status.Fingerprint.Hash {
		t.Errorf("a reboot changed the fingerprint:\n%+v\n%+v", before.Status.Fingerprint, after.Status.Fingerprint)
	}
	if diff := c.hostDiff(t, bareNode); diff != c.diffs[bareNode] {
		t.Errorf("a reboot changed host files:\nbefore:\n%s\nafter:\n%s", c.diffs[bareNode], diff)
	}
}

func rebuiltNodeIsTheSame(t *testing.T, c *cluster) {
	before, err := c.gpuNode(t.Context(), hostNode)
	if err != nil {
		t.Fatal(err)
	}
	c.remove(t, plainPods()[hostNode])
	c.lab(t, "node", "rebuild", hostNode)
	c.eventually(t, readyWithin, hostNode+" is ready again, built from nothing", func(ctx context.Context) string {
		g, err := c.gpuNode(ctx, hostNode)
		if err != nil {
			return err.Error()
		}
		if g.UID == before.UID {
			return "the GPUNode is the old one"
		}
		return c.notReady(ctx, hostNode, gpusEach)
	})
	after, err := c.gpuNode(t.Context(), hostNode)
	if err != nil {
		t.Fatal(err)
	}
	if after.Status.Fingerprint.Hash != before.Status.Fingerprint.Hash {
		t.Errorf("rebuilding changed the fingerprint:\n%+v\n%+v", before.Status.Fingerprint, after.Status.Fingerprint)
	}
	if diff := c.hostDiff(t, hostNode); diff != c.diffs[hostNode] {
		t.Errorf("host files differ from before the rebuild:\nbefore:\n%s\nafter:\n%s", c.diffs[hostNode], diff)
	}
	c.applyKnownPlainPods(t)
}
