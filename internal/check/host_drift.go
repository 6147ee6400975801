package check

import (
	"fmt"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/plan"
)

// hostDrift: somebody else changed or removed what we wrote.
func hostDrift(n facts.Node) *v1alpha1.Finding {
	var out []string
	for _, c := range n.HostChanges {
		if c.State != plan.StatusOurs {
			out = append(out, fmt.Sprintf("%s is %s", c.Path, c.State))
		}
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingHostDrift, Severity: v1alpha1.SeverityWarning,
		Remedy: "the operand that owns the file repairs it; find who else writes there and give it the change to make",
	}, out)
}
