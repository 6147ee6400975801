package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// TestViolations proves that the judge of order can say no.
func TestViolations(t *testing.T) {
	t.Parallel()
	gpuNode := func(driver, handler bool) *v1alpha1.GPUNode {
		g := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		g.Status = v1alpha1.GPUNodeStatus{
			PCIScanned: true, GPUCount: 8, Facts: &v1alpha1.NodeFacts{BootID: "b"},
			Driver: &v1alpha1.DriverState{Kind: "Host", Ready: driver},
		}
		if handler {
			g.Status.Evidence = []v1alpha1.StepEvidence{{Step: "container-toolkit", BootID: "b", Ready: true, Handlers: []string{"nvidia"}}}
		}
		return g
	}
	p := func(app string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: app, UID: "u", Namespace: namespace, Labels: map[string]string{names.LabelApp: app}},
			Spec:       corev1.PodSpec{NodeName: "n"},
		}
	}
	advertised := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	advertised.Status.Allocatable = corev1.ResourceList{names.ResourceGPU: resource.MustParse("8")}
	for name, tc := range map[string]struct {
		history []recorded // versions are their order
		want    int        // violations
	}{
		"toolkit before any driver":   {[]recorded{{object: gpuNode(false, false)}, {object: p(names.DaemonSetToolkit)}}, 1},
		"toolkit after the driver":    {[]recorded{{object: gpuNode(true, false)}, {object: p(names.DaemonSetToolkit)}}, 0},
		"plugin before the handler":   {[]recorded{{object: gpuNode(true, false)}, {object: p(names.DaemonSetDevicePlugin)}}, 1},
		"plugin after the handler":    {[]recorded{{object: gpuNode(true, true)}, {object: p(names.DaemonSetDevicePlugin)}}, 0},
		"advertised before handler":   {[]recorded{{object: gpuNode(true, false)}, {object: advertised}}, 1},
		"advertised after handler":    {[]recorded{{object: gpuNode(true, true)}, {object: advertised}}, 0},
		"driver before the PCI scan":  {[]recorded{{object: p(names.DaemonSetDriver)}}, 1},
		"a pod that is going is none": {[]recorded{{object: p(names.DaemonSetDriver), kind: watch.Deleted}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range tc.history {
				tc.history[i].version = uint64(i + 1)
			}
			if got, _ := violations(tc.history); len(got) != tc.want {
				t.Errorf("violations %v, want %d", got, tc.want)
			}
		})
	}
}
