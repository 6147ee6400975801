package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// evidenceInvalid: evidence cannot be read.
func evidenceInvalid(n facts.Node) *v1alpha1.Finding {
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingEvidenceInvalid, Severity: v1alpha1.SeverityWarning,
		Remedy: "remove the file; the operand writes it again",
	}, n.BadEvidence)
}
