package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// cdiInvalid: a file among the CDI specs is none.
func cdiInvalid(n facts.Node) *v1alpha1.Finding {
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingCDIInvalid, Severity: v1alpha1.SeverityWarning,
		Remedy: "repair or remove the file: some runtimes refuse every CDI device while it is there",
	}, n.BadCDI)
}
