package check

import (
	"fmt"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// cdiDuplicate: two CDI specs define devices of the same kind.
func cdiDuplicate(n facts.Node) *v1alpha1.Finding {
	var out []string
	first := map[string]string{}
	for _, c := range n.CDI {
		if other, ok := first[c.Kind]; ok {
			out = append(out, fmt.Sprintf("%s and %s both define %s", other, c.Path, c.Kind))
			continue
		}
		first[c.Kind] = c.Path
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingCDIDuplicate, Severity: v1alpha1.SeverityWarning,
		Remedy: "remove the one that is not wanted; devices of the same name in both cannot be used",
	}, out)
}
