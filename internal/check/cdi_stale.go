package check

import (
	"fmt"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// cdiStale: a CDI spec was made for another driver than the loaded one.
func cdiStale(n facts.Node) *v1alpha1.Finding {
	var out []string
	for _, c := range n.CDI {
		if c.DriverVersion != "" && n.Driver.LoadedVersion != "" && c.DriverVersion != n.Driver.LoadedVersion {
			out = append(out, fmt.Sprintf("%s is for driver %s, loaded is %s", c.Path, c.DriverVersion, n.Driver.LoadedVersion))
		}
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingCDIStale, Severity: v1alpha1.SeverityError,
		Remedy: "a spec of the operator is made again by itself; remove any other, or run nvidia-ctk cdi generate again",
	}, out)
}
