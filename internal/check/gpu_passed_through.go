package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// gpuPassedThrough: a GPU belongs to virtual machines.
func gpuPassedThrough(n facts.Node) *v1alpha1.Finding {
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingGPUPassedThrough, Severity: v1alpha1.SeverityInfo,
		Remedy: "nothing to do when virtual machines use it; to use it in containers, unbind it from vfio-pci",
	}, boundTo(n, func(d string) bool { return d == driverVFIO }))
}
