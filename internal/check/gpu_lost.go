package check

import (
	"slices"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// gpuLost: a GPU is bound to the driver, and the driver does not list it.
func gpuLost(n facts.Node) *v1alpha1.Finding {
	if n.DriverGPUs == nil {
		return nil
	}
	var out []string
	for _, g := range n.GPUs {
		if g.Driver == driverNVIDIA && !slices.Contains(n.DriverGPUs, g.Address) {
			out = append(out, g.Address+" is bound to nvidia, and the driver does not list it")
		}
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingGPULost, Severity: v1alpha1.SeverityError,
		Remedy: "drain the node and reset the GPU or reboot; when it happens again, have the card replaced",
	}, out)
}
