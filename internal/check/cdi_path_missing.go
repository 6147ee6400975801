package check

import (
	"fmt"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// cdiPathMissing: a CDI spec names a host path that is not there.
func cdiPathMissing(n facts.Node) *v1alpha1.Finding {
	var out []string
	for _, c := range n.CDI {
		if c.Missing != "" {
			out = append(out, fmt.Sprintf("%s names %s, which is not there", c.Path, c.Missing))
		}
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingCDIPathMissing, Severity: v1alpha1.SeverityError,
		Remedy: "a spec of the operator is made again by itself; remove any other, or run nvidia-ctk cdi generate again",
	}, out)
}
