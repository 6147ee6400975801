// Package deviceplugin is the DaemonSet that advertises nvidia.com/gpu to the
// kubelet. It sees the GPUs through the management runtime class, without
// privilege and without API credentials.
package deviceplugin

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// Objects of the device plugin.
func Objects(in operand.Input) []client.Object {
	spec := in.Policy.Spec
	return []client.Object{operand.DaemonSet(in, operand.Spec{
		Name:      names.DaemonSetDevicePlugin,
		Container: "nvidia-device-plugin",
		Component: "nvidia-device-plugin",
		Gate:      names.GateDevicePlugin,
		Args:      []string{"device-plugin"},
		Env: []corev1.EnvVar{
			operand.NodeName(),
			operand.Env(names.EnvVisibleDevices, "all"),
			operand.Env(names.EnvMIGStrategy, in.MIGStrategy()),
			operand.Env(names.EnvDeviceListStrat, "cdi-annotations,cdi-cri"),
			operand.Env(names.EnvGPUSysfs, names.ContainerSysfsMount),
		},
		Mounts: []operand.Mount{
			// The kubelet's registration socket does not follow its --root-dir: the path is a
			// constant of its API (k8s.io/kubelet deviceplugin/v1beta1, KubeletSocket).
			{Name: "device-plugins", Host: names.KubeletDevicePluginDir, At: names.KubeletDevicePluginDir},
			{Name: "cdi", Host: names.CDIDir, At: names.CDIDir, ReadOnly: true},
			{Name: "gpu-sysfs", Host: in.SysfsRoot, At: names.ContainerSysfsMount, ReadOnly: true},
		},
		RuntimeClass: names.RuntimeManagement,
		HealthOn:     operand.HealthPort,
		Settings:     spec.DevicePlugin.ComponentSpec,
	})}
}
