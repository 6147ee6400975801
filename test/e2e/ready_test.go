package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
)

// readyWithin bounds how long a node may take from policy to Ready: the kubelet
// reports handlers at its own status period and images are loaded beforehand.
const readyWithin = 4 * time.Minute

// notReady says what a GPU node lacks: stage, its own evidence in this boot, or
// the GPUs in allocatable; "" when it is ready.
func (c *cluster) notReady(ctx context.Context, name string, gpus int64) string {
	n, err := c.node(ctx, name)
	if err != nil {
		return err.Error()
	}
	g, err := c.gpuNode(ctx, name)
	if err != nil {
		return err.Error()
	}
	if g.Status.Facts == nil || g.Status.Facts.BootID != n.Status.NodeInfo.BootID {
		return name + ": facts are not of this boot"
	}
	if g.Status.Stage != "Ready" {
		return fmt.Sprintf("%s: stage %q, gates %+v, findings %+v", name, g.Status.Stage, g.Status.Gates, g.Status.Findings)
	}
	if q := n.Status.Allocatable[names.ResourceGPU]; q.Value() != gpus {
		return fmt.Sprintf("%s: allocatable %s is %s, want %d", name, names.ResourceGPU, q.String(), gpus)
	}
	return ""
}

// allReady is notReady over several nodes of gpusEach GPUs.
func (c *cluster) allReady(nodes ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		for _, n := range nodes {
			if missing := c.notReady(ctx, n, gpusEach); missing != "" {
				return missing
			}
		}
		return ""
	}
}

func onePolicyMakesNodesReady(t *testing.T, c *cluster) {
	c.eventually(t, readyWithin, "both GPU nodes are ready", c.allReady(hostNode, bareNode))
	c.policyReady(t, 30*time.Second)
	for _, name := range []string{hostNode, bareNode} {
		g, err := c.gpuNode(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if g.Status.Fingerprint == nil || g.Status.Fingerprint.Hash == "" {
			t.Errorf("%s has no fingerprint", name)
		}
		if g.Status.Drift != "None" {
			t.Errorf("%s: drift is %q, want None", name, g.Status.Drift)
		}
	}
	c.discoveryLabels(t)
}

// discoveryLabels checks that model and memory are labels of the node.
func (c *cluster) discoveryLabels(t *testing.T) {
	t.Helper()
	for _, name := range []string{hostNode, bareNode} {
		c.eventually(t, time.Minute, name+" has its model as label", func(ctx context.Context) string {
			n, err := c.node(ctx, name)
			if err != nil {
				return err.Error()
			}
			want := map[string]string{
				"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
				"nvidia.com/gpu.count":   fmt.Sprint(gpusEach),
				"nvidia.com/gpu.family":  "hopper",
				names.LabelGPUPresent:    "true",
			}
			for k, v := range want {
				if n.Labels[k] != v {
					return fmt.Sprintf("label %s is %q, want %q", k, n.Labels[k], v)
				}
			}
			return ""
		})
	}
}

func cpuNodeGetsInspectorOnly(t *testing.T, c *cluster) {
	pods := c.operandPods(t.Context(), t, cpuNode)
	for _, p := range pods {
		if p.Labels[names.LabelApp] != names.DaemonSetInspector && p.Labels[names.LabelApp] != "gpu-operator" {
			t.Errorf("pod %s runs on a node without a GPU", p.Name)
		}
	}
	if len(pods) == 0 {
		t.Error("no inspector on the node without a GPU")
	}
	n, err := c.node(t.Context(), cpuNode)
	if err != nil {
		t.Fatal(err)
	}
	for k := range n.Labels {
		if len(k) > len(names.Group) && k[:len(names.Group)+1] == names.Group+"/" {
			t.Errorf("label %s=%s on a node without a GPU", k, n.Labels[k])
		}
	}
	if out := c.lab(t, "host-diff", cpuNode); out != "" {
		t.Errorf("host files changed on a node without a GPU:\n%s", out)
	}
}

// operandPods returns the operator's pods on a node.
func (c *cluster) operandPods(ctx context.Context, t *testing.T, node string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var on []corev1.Pod
	for _, p := range pods.Items {
		if p.Spec.NodeName == node {
			on = append(on, p)
		}
	}
	return on
}
