// Package driver is the DaemonSet that brings the driver. Without an image of the
// policy the built-in process adopts a driver that is there; an image of the policy
// is a driver container and runs by the upstream contract: entrypoint
// `nvidia-driver init`, the driver's root at /run/nvidia/driver.
package driver

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// Timings of the upstream driver container's startup probe: a driver that is built
// at start takes up to 20 minutes.
const (
	startupPeriod   = 10
	startupTimeout  = 60
	startupFailures = 120
)

// Objects of the driver.
func Objects(in operand.Input) []client.Object {
	d := in.Policy.Spec.Driver
	s := operand.Spec{
		Name:       names.DaemonSetDriver,
		Container:  "nvidia-driver-ctr",
		Component:  "nvidia-driver",
		Gate:       names.GateDriver,
		Env:        append(operand.HostEnv(), operand.Env(names.EnvDriverVersion, d.Version), operand.Env(names.EnvDriverManaged, "true")),
		Mounts:     append(operand.HostMounts(in, false), runMount()),
		Privileged: true,
		HostPID:    true,
		Settings:   d.ComponentSpec,
	}
	if image := operand.ImageRef(d.ImageSpec); image != "" {
		s.Image, s.Command, s.Args = image, []string{"nvidia-driver"}, []string{"init"}
		s.Env = append(s.Env, operand.Env("KERNEL_MODULE_TYPE", moduleType(d)))
		s.StartupProbe = startupProbe(d.StartupProbe)
	} else {
		s.Args, s.HealthOn = []string{"driver", "run"}, operand.HealthPort
	}
	return []client.Object{operand.DaemonSet(in, s)}
}

// runMount shows mounts that the driver container makes below /run/nvidia to the host.
func runMount() operand.Mount {
	return operand.Mount{
		Name: "run-nvidia", Host: names.NvidiaRunDir, At: names.NvidiaRunDir,
		Propagation: corev1.MountPropagationBidirectional, Type: corev1.HostPathDirectoryOrCreate,
	}
}

// moduleType is the flavour of kernel modules, the former switch included.
func moduleType(d v1.DriverSpec) string {
	if d.UseOpenKernelModules != nil && *d.UseOpenKernelModules {
		return "open"
	}
	if d.KernelModuleType == "" {
		return "auto"
	}
	return d.KernelModuleType
}

// startupProbe looks for the loaded module, with the policy's timings where set.
func startupProbe(p *v1.ContainerProbe) *corev1.Probe {
	probe := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{
			"sh", "-c", "test -f " + names.ContainerSysfsMount + "/" + names.ModuleRefcountFile +
				" && grep -q '^Ready' " + names.ValidationsDir + "/.driver-daemons-status",
		}}},
		PeriodSeconds: startupPeriod, TimeoutSeconds: startupTimeout, FailureThreshold: startupFailures, SuccessThreshold: 1,
	}
	if p == nil {
		return probe
	}
	for _, v := range []struct {
		set int32
		to  *int32
	}{
		{p.InitialDelaySeconds, &probe.InitialDelaySeconds},
		{p.PeriodSeconds, &probe.PeriodSeconds},
		{p.TimeoutSeconds, &probe.TimeoutSeconds},
		{p.FailureThreshold, &probe.FailureThreshold},
	} {
		if v.set != 0 {
			*v.to = v.set
		}
	}
	return probe
}
