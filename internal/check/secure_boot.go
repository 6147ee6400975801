package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// secureBoot: a GPU without a loaded module on a machine that refuses unsigned ones.
func secureBoot(n facts.Node) *v1alpha1.Finding {
	if n.Identity.SecureBoot != "enabled" || n.Driver.LoadedVersion != "" || !needsDriver(n) {
		return nil
	}
	return &v1alpha1.Finding{
		Reason: v1alpha1.FindingSecureBootBlocksDriver, Severity: v1alpha1.SeverityWarning,
		Evidence: "Secure Boot is enabled and module nvidia is not loaded",
		Remedy:   "use a driver whose modules are signed with a key that the machine trusts, or enrol the key (mokutil --import)",
	}
}
