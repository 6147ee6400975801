package controller

import (
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/gate"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
	"gpu-operator/internal/operand/all"
)

// GatePolicy is what gates need of a policy in a phase.
func GatePolicy(p *v1.ClusterPolicy, phase gate.Phase) gate.Policy {
	in := operand.Input{Policy: p}
	g := gate.Policy{
		Phase:    phase,
		Enabled:  map[string]bool{},
		Handler:  in.RuntimeClass(),
		NeedsCDI: p.Spec.Toolkit.IsEnabled(true),
	}
	for _, o := range all.Table() {
		if o.Step != "" {
			g.Enabled[o.Step] = o.Enabled(p.Spec)
		}
	}
	if operand.ImageRef(p.Spec.Driver.ImageSpec) != "" {
		g.DriverVersion = p.Spec.Driver.Version
	}
	return g
}

// GateFacts are the facts of one node; gpu is nil when it has no GPUNode.
func GateFacts(p gate.Policy, node *corev1.Node, gpu *v1alpha1.GPUNode) gate.Facts {
	f := gate.Facts{Policy: p, BootID: node.Status.NodeInfo.BootID, Labels: node.Labels}
	for _, h := range node.Status.RuntimeHandlers {
		if h.Name != "" {
			f.Handlers = append(f.Handlers, h.Name)
		}
	}
	for name, q := range node.Status.Allocatable {
		if strings.HasPrefix(string(name), names.Group+"/") {
			f.Allocatable += q.Value()
		}
	}
	if gpu != nil {
		f.Status = &gpu.Status
	}
	return f
}

// wantedLabels are the labels that the operator gives a node beside its gates:
// that a GPU is there, and what feature discovery derived.
func wantedLabels(f gate.Facts) map[string]string {
	want := map[string]string{}
	if f.Status == nil || f.Policy.Phase == gate.UndoDriver || f.Labels[names.GateOperands] == names.GateOff {
		return want
	}
	if f.GPUs() > 0 {
		want[names.LabelGPUPresent] = "true"
	}
	if f.Policy.Phase == gate.Normal && f.Status.Discovery != nil && f.GPUs() > 0 {
		for k, v := range f.Status.Discovery.Labels {
			if strings.HasPrefix(k, names.Group+"/") && !strings.HasPrefix(k, names.GatePrefix) {
				want[k] = v
			}
		}
	}
	return want
}

// labelPatch is what must change on the node's labels: a value, or nil to remove.
// The keys that the operator owns beside the gates are recorded in an annotation,
// so that it removes only what it set. Nothing to change is an empty patch.
func labelPatch(f gate.Facts, decisions []gate.Decision, annotations map[string]string) (labels map[string]any, owned string) {
	labels = map[string]any{}
	for _, d := range decisions {
		if !d.Write || d.Value == f.Labels[d.Label] {
			continue
		}
		if d.Value == "" {
			labels[d.Label] = nil
			continue
		}
		labels[d.Label] = d.Value
	}
	want := wantedLabels(f)
	had := strings.FieldsFunc(annotations[names.AnnotationGates], func(r rune) bool { return r == ',' })
	if !f.Fresh() && f.Policy.Phase == gate.Normal {
		return labels, annotations[names.AnnotationGates] // unknown: nothing is taken away
	}
	keys := make([]string, 0, len(want))
	for k, v := range want {
		keys = append(keys, k)
		if f.Labels[k] != v {
			labels[k] = v
		}
	}
	sort.Strings(keys)
	for _, k := range had {
		if _, still := want[k]; still {
			continue
		}
		if _, is := f.Labels[k]; is {
			labels[k] = nil
		}
	}
	return labels, strings.Join(keys, ",")
}
