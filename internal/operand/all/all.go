// Package all is the table of operands: a new one is a folder and a row here.
package all

import (
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
	"gpu-operator/internal/operand/deviceplugin"
	"gpu-operator/internal/operand/discovery"
	"gpu-operator/internal/operand/driver"
	"gpu-operator/internal/operand/exporter"
	"gpu-operator/internal/operand/inspector"
	"gpu-operator/internal/operand/toolkit"
)

// Operand is one row: the step that it does, its DaemonSet, whether the policy
// wants it, and its objects.
type Operand struct {
	// Step is the gate's step; "" for the inspector, which has no gate.
	Step      string
	DaemonSet string
	Enabled   func(v1.ClusterPolicySpec) bool
	Objects   func(operand.Input) []client.Object
}

// Table lists the operands in order.
func Table() []Operand {
	return []Operand{
		{"", names.DaemonSetInspector, func(v1.ClusterPolicySpec) bool { return true }, inspector.Objects},
		{v1alpha1.StepDriver, names.DaemonSetDriver, func(s v1.ClusterPolicySpec) bool { return s.Driver.IsEnabled(true) }, driver.Objects},
		{v1alpha1.StepToolkit, names.DaemonSetToolkit, func(s v1.ClusterPolicySpec) bool { return s.Toolkit.IsEnabled(true) }, toolkit.Objects},
		{v1alpha1.StepDevicePlugin, names.DaemonSetDevicePlugin, func(s v1.ClusterPolicySpec) bool { return s.DevicePlugin.IsEnabled(true) }, deviceplugin.Objects},
		{v1alpha1.StepFeatureDiscovery, names.DaemonSetFeatureDiscovery, func(s v1.ClusterPolicySpec) bool { return s.GPUFeatureDiscovery.IsEnabled(true) }, discovery.Objects},
		{v1alpha1.StepExporter, names.DaemonSetExporter, func(s v1.ClusterPolicySpec) bool { return s.DCGMExporter.IsEnabled(true) }, exporter.Objects},
	}
}

// Objects are all objects that a policy wants, in the order of the steps: runtime
// classes first, since pods name them.
func Objects(in operand.Input) []client.Object {
	objects := RuntimeClasses(in)
	for _, o := range Table() {
		if o.Enabled(in.Policy.Spec) {
			objects = append(objects, o.Objects(in)...)
		}
	}
	return objects
}

// RuntimeClasses are the classes for GPU Pods and the one for operands.
func RuntimeClasses(in operand.Input) []client.Object {
	var classes []client.Object
	for _, name := range append(names.WorkloadHandlers(in.RuntimeClass()), names.RuntimeManagement) {
		c := &nodev1.RuntimeClass{
			TypeMeta:   metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"},
			ObjectMeta: operand.Meta(in, name, "runtime-class"),
			Handler:    name,
		}
		c.Namespace = ""
		classes = append(classes, c)
	}
	return classes
}
