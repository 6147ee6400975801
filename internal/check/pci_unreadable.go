package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// pciUnreadable: the PCI tree could not be read.
func pciUnreadable(n facts.Node) *v1alpha1.Finding {
	if n.PCIError == "" {
		return nil
	}
	return &v1alpha1.Finding{
		Reason: v1alpha1.FindingPCIUnreadable, Severity: v1alpha1.SeverityError, Evidence: n.PCIError,
		Remedy: "mount the host's sysfs read-only into the inspector; until then nothing on this node is opened or closed",
	}
}
