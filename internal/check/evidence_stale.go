package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// evidenceStale: evidence of another boot lies on the host.
func evidenceStale(n facts.Node) *v1alpha1.Finding {
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingEvidenceStale, Severity: v1alpha1.SeverityInfo,
		Remedy: "it is not used; that it outlived a reboot means that /run is no tmpfs here",
	}, n.StaleEvidence)
}
