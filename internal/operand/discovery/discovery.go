// Package discovery is the DaemonSet that derives node labels from the GPUs. It
// may write one object: the GPUNode of its own node; the operator sets the labels.
package discovery

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// Objects of GPU feature discovery.
func Objects(in operand.Input) []client.Object {
	spec := in.Policy.Spec
	return []client.Object{operand.DaemonSet(in, operand.Spec{
		Name:      names.DaemonSetFeatureDiscovery,
		Container: "gpu-feature-discovery",
		Component: "gpu-feature-discovery",
		Gate:      names.GateFeatureDiscovery,
		Args:      []string{"feature-discovery"},
		Env: []corev1.EnvVar{
			operand.NodeName(),
			operand.Env(names.EnvHostRoot, names.HostMount),
			operand.Env(names.EnvVisibleDevices, "all"),
			operand.Env(names.EnvMIGStrategy, in.MIGStrategy()),
			operand.Env(names.EnvGPUSysfs, names.ContainerSysfsMount),
			operand.Env("GFD_MACHINE_TYPE_FILE", names.HostMount+names.MachineTypeDir+"/product_name"),
		},
		Mounts: []operand.Mount{
			// The directory and not the file: a node that is itself a container has a boot id
			// file which cannot be mounted by its name.
			{Name: "boot-id", Host: path.Dir(names.BootIDFile), At: names.HostMount + path.Dir(names.BootIDFile), ReadOnly: true},
			// Not every machine has DMI: its directory cannot be mounted, /sys can.
			{Name: "sys", Host: names.SysDir, At: names.HostMount + names.SysDir, ReadOnly: true},
			{Name: "gpu-sysfs", Host: in.SysfsRoot, At: names.ContainerSysfsMount, ReadOnly: true},
		},
		ServiceAccount: names.ServiceAccountDiscovery,
		RuntimeClass:   names.RuntimeManagement,
		HealthOn:       operand.HealthPort,
		Settings:       spec.GPUFeatureDiscovery,
	})}
}
