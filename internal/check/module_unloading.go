package check

import (
	"strings"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// moduleUnloading: a module of the driver is stuck in its unload.
func moduleUnloading(n facts.Node) *v1alpha1.Finding {
	var stuck []string
	for _, m := range n.Modules {
		if strings.HasPrefix(m.Name, "nvidia") && m.State == "Unloading" {
			stuck = append(stuck, m.Name+" is Unloading with "+m.RefCount+" users")
		}
	}
	return some(v1alpha1.Finding{
		Reason: v1alpha1.FindingModuleUnloading, Severity: v1alpha1.SeverityError,
		Remedy: "reboot the node: a module in this state can be neither used nor loaded again",
	}, stuck)
}
