// Package inspector is the DaemonSet that says what every Linux node is. It looks
// at the host read-only, without any capability, and may write one object: the
// GPUNode of its own node.
package inspector

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// Objects of the node inspector.
func Objects(in operand.Input) []client.Object {
	return []client.Object{operand.DaemonSet(in, operand.Spec{
		Name:           names.DaemonSetInspector,
		Container:      "node-inspector",
		Component:      "node-inspector",
		Args:           []string{"inspect"},
		Env:            operand.HostEnv(),
		Mounts:         operand.HostMounts(in, true),
		ServiceAccount: names.ServiceAccountInspector,
		HealthOn:       operand.HealthPort,
		TolerateAll:    true,
	})}
}
