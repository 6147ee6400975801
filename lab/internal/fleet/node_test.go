package fleet

import (
	"testing"

	"gpu-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNext(t *testing.T) {
	t.Parallel()
	label := func(n *corev1.Node, steps ...string) {
		for _, s := range steps {
			n.Labels[gateBase+s] = "true"
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Node, *v1alpha1.GPUNode)
		check  func(Action) bool
	}{
		"a new node gets its boot id": {func(n *corev1.Node, _ *v1alpha1.GPUNode) { n.Status.NodeInfo.BootID = "" },
			func(a Action) bool { return a.Info }},
		"the inspector speaks first": {func(*corev1.Node, *v1alpha1.GPUNode) {},
			func(a Action) bool { return a.Inspector != nil && len(a.Inspector.Evidence) == 0 }},
		"the toolkit's work is seen": {func(n *corev1.Node, g *v1alpha1.GPUNode) {
			g.Status = inspected(n.Name, false)
			label(n, "container-toolkit")
		}, func(a Action) bool { return a.Inspector != nil && len(a.Inspector.Evidence) == 1 }},
		"the plugin registers": {func(n *corev1.Node, g *v1alpha1.GPUNode) {
			g.Status = inspected(n.Name, true)
			label(n, "container-toolkit", "device-plugin")
		}, func(a Action) bool { return a.GPUs != nil && a.GPUs.Value() == gpus && a.Inspector == nil }},
		"the plugin leaves": {func(n *corev1.Node, g *v1alpha1.GPUNode) {
			g.Status = inspected(n.Name, true)
			n.Status.Allocatable = corev1.ResourceList{resGPU: resource.MustParse("8")}
		}, func(a Action) bool { return a.GPUs != nil && a.GPUs.Value() == 0 }},
		"at rest": {func(n *corev1.Node, g *v1alpha1.GPUNode) { g.Status = inspected(n.Name, true) },
			func(a Action) bool { return a.Nothing() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, g := Node(1), &v1alpha1.GPUNode{}
			n.Status.NodeInfo.BootID = BootID(n.Name)
			tc.change(n, g)
			if a := Next(n, g); !tc.check(a) {
				t.Errorf("action %+v", a)
			}
		})
	}
}
