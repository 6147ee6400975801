package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// gpuUnbound: the driver is loaded and left a GPU out.
func gpuUnbound(n facts.Node) *v1alpha1.Finding {
	if n.Driver.LoadedVersion == "" {
		return nil
	}
	var out []string
	for _, g := range n.GPUs {
		if g.Driver == "" {
			out = append(out, g.Address+" (device "+g.DeviceID+") is bound to no driver")
		}
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingGPUUnbound, Severity: v1alpha1.SeverityWarning,
		Remedy: "look for the address in the kernel's log: the driver may not support the device, or its initialisation failed",
	}, out)
}
