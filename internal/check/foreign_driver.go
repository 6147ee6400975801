package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// The kernel drivers that may hold a GPU rightly.
const (
	driverNVIDIA = "nvidia"
	driverVFIO   = "vfio-pci"
)

// foreignDriver: another driver than NVIDIA's holds a GPU.
func foreignDriver(n facts.Node) *v1alpha1.Finding {
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingForeignDriver, Severity: v1alpha1.SeverityError,
		Remedy: "blacklist that module (modprobe.d), rebuild the initramfs and reboot",
	}, boundTo(n, func(d string) bool { return d != "" && d != driverNVIDIA && d != driverVFIO }))
}
