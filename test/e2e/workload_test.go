package e2e

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
)

// workloadImage is the lab's image for users' Pods: a C library and a shell, no
// part of a driver.
const workloadImage = "gpu-operator.local/workload:dev"

// smiLine matches one line of `nvidia-smi -L` and captures the UUID.
var smiLine = regexp.MustCompile(`(?m)^GPU \d+: .* \(UUID: (GPU-[0-9a-f-]+)\)$`)

// podSpec is what a story varies of a Pod.
type podSpec struct {
	name, node   string
	runtimeClass string // "" = the node's default runtime
	gpus         int64  // 0 = asks for none
	env          map[string]string
	command      string
	stays        bool // true: a server, restarted when it ends; false: runs once
}

// pod builds the Pod of s in the default namespace.
func pod(s podSpec) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: "default"},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "main", Image: workloadImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"/bin/sh", "-c", s.command},
			}},
		},
	}
	if s.runtimeClass != "" {
		p.Spec.RuntimeClassName = &s.runtimeClass
	}
	if s.node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.node}
	}
	if s.stays {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.gpus > 0 {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			names.ResourceGPU: *resource.NewQuantity(s.gpus, resource.DecimalSI),
		}
	}
	for k, v := range s.env {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: k, Value: v})
	}
	return p
}

// start creates the Pod and waits until it has the phase.
func (c *cluster) start(t *testing.T, s podSpec, phase corev1.PodPhase, deadline time.Duration) {
	t.Helper()
	c.applyObject(t, pod(s))
	c.eventually(t, deadline, fmt.Sprintf("pod %s is %s", s.name, phase), func(ctx context.Context) string {
		var p corev1.Pod
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: s.name}, &p); err != nil {
			return err.Error()
		}
		if p.Status.Phase != phase {
			return fmt.Sprintf("phase %s: %s", p.Status.Phase, waiting(p))
		}
		return ""
	})
}

// waiting says why a Pod does not run yet.
func waiting(p corev1.Pod) string {
	for _, cs := range p.Status.ContainerStatuses {
		if w := cs.State.Waiting; w != nil {
			return w.Reason + ": " + w.Message
		}
		if e := cs.State.Terminated; e != nil {
			return fmt.Sprintf("ended with %d: %s %s", e.ExitCode, e.Reason, e.Message)
		}
	}
	for _, cond := range p.Status.Conditions {
		if cond.Status == corev1.ConditionFalse {
			return string(cond.Type) + ": " + cond.Message
		}
	}
	return "no reason given"
}

// logs returns what a Pod printed.
func (c *cluster) logs(t *testing.T, name string) string {
	t.Helper()
	return c.lab(t, "kubectl", "--", "logs", name)
}

// remove deletes Pods and waits until they are gone.
func (c *cluster) remove(t *testing.T, podNames ...string) {
	t.Helper()
	args := append([]string{"kubectl", "--", "delete", "pod", "--ignore-not-found", "--wait=true", "--timeout=60s"}, podNames...)
	c.lab(t, args...)
}

// uuids returns the GPU UUIDs that `nvidia-smi -L` listed in out.
func uuids(out string) []string {
	var ids []string
	for _, m := range smiLine.FindAllStringSubmatch(out, -1) {
		ids = append(ids, m[1])
	}
	return ids
}
