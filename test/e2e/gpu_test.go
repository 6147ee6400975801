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

// listGPUs is what a user's Pod does first.
const listGPUs = "nvidia-smi -L"

// runWithin bounds the start of one small Pod.
const runWithin = time.Minute

func podsSeeTheirGPUs(t *testing.T, c *cluster) {
	for _, node := range []string{hostNode, bareNode} {
		var seen []string
		for _, name := range []string{"one-a", "one-b"} {
			c.start(t, podSpec{
				name: name, node: node, runtimeClass: names.RuntimeNVIDIA, gpus: 1,
				command: listGPUs + " && exec sleep 600", stays: true,
			}, corev1.PodRunning, runWithin)
			c.eventually(t, runWithin, name+" printed its GPU", func(context.Context) string {
				if out := c.logs(t, name); len(uuids(out)) != 1 {
					return "printed: " + out
				}
				return ""
			})
			seen = append(seen, uuids(c.logs(t, name))...)
		}
		if len(seen) != 2 || seen[0] == seen[1] {
			t.Errorf("%s: two pods of one GPU each saw %v, want two different GPUs", node, seen)
		}
		c.remove(t, "one-a", "one-b")
	}
	c.start(t, podSpec{name: "too-many", gpus: gpusEach + 1, command: listGPUs}, corev1.PodPending, runWithin)
	c.eventually(t, runWithin, "a pod that asks for 9 of 8 is unschedulable", func(ctx context.Context) string {
		var p corev1.Pod
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "too-many"}, &p); err != nil {
			return err.Error()
		}
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Reason == corev1.PodReasonUnschedulable &&
				strings.Contains(cond.Message, names.ResourceGPU) {
				return ""
			}
		}
		return fmt.Sprintf("%+v", p.Status.Conditions)
	})
	c.remove(t, "too-many")
}

func noGPUWithoutAsking(t *testing.T, c *cluster) {
	for _, node := range []string{hostNode, bareNode} {
		c.sneaks(t, node)
	}
	p := pod(podSpec{name: "management", runtimeClass: names.RuntimeManagement, command: listGPUs})
	err := c.Create(t.Context(), p)
	if err == nil {
		c.remove(t, "management")
		t.Fatalf("a pod outside namespace %s was admitted under RuntimeClass %s", namespace, names.RuntimeManagement)
	}
	if !strings.Contains(err.Error(), names.RuntimeManagement) {
		t.Errorf("the refusal does not name the RuntimeClass: %v", err)
	}
}

// sneaks fails when a Pod on a node gets at a GPU by the environment of CUDA images,
// past the scheduler, with or without the runtime class; what the Pod finds is told
// apart by what it prints.
func (c *cluster) sneaks(t *testing.T, node string) {
	t.Helper()
	look := "ls /dev | grep '^nvidia' || echo no device; nvidia-smi -L 2>&1 || echo no driver"
	for name, class := range map[string]string{"env-all": names.RuntimeNVIDIA, "env-all-plain": ""} {
		c.start(t, podSpec{
			name: name, node: node, runtimeClass: class, command: look,
			env: map[string]string{names.EnvVisibleDevices: "all", "CUDA_VERSION": "12.4.0"},
		}, corev1.PodSucceeded, runWithin)
		out := c.logs(t, name)
		if !strings.Contains(out, "no device") || len(uuids(out)) != 0 {
			t.Errorf("%s: a pod that asked for nothing (runtimeClass %q) found:\n%s", node, class, out)
		}
		c.remove(t, name)
	}
}
