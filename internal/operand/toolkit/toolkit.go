// Package toolkit is the DaemonSet that installs NVIDIA's container runtime on the
// host, registers the runtime handlers and writes CDI specs. It is privileged and
// holds no API credentials.
package toolkit

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// Objects of the container toolkit. With in.Undo the same DaemonSet undoes what
// it did and then idles.
func Objects(in operand.Input) []client.Object {
	t := in.Policy.Spec.Toolkit
	dir := t.InstallDir
	if dir == "" {
		dir = names.ToolkitInstallDir
	}
	verb := "run"
	if in.Undo {
		verb = "uninstall"
	}
	ds := operand.DaemonSet(in, operand.Spec{
		Name:       names.DaemonSetToolkit,
		Container:  "nvidia-container-toolkit-ctr",
		Component:  "nvidia-container-toolkit",
		Gate:       names.GateToolkit,
		Args:       []string{"toolkit", verb},
		Env:        append(operand.HostEnv(), operand.Env("ROOT", dir), operand.Env("CONTAINERD_RUNTIME_CLASS", in.RuntimeClass())),
		Mounts:     operand.HostMounts(in, false),
		Privileged: true,
		HostPID:    true,
		HealthOn:   operand.HealthPort,
		Settings:   t.ComponentSpec,
	})
	if in.Undo {
		// Every node is undone at once: nothing of ours runs on them any more.
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{
				MaxUnavailable: new(intstr.FromString("100%")), MaxSurge: new(intstr.FromInt32(0)),
			},
		}
		ds.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(5))
	}
	return []client.Object{ds}
}
