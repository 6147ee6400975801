package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// runtimeNotFound: it is not known which container runtime serves the kubelet.
func runtimeNotFound(n facts.Node) *v1alpha1.Finding {
	if n.RuntimeError == "" {
		return nil
	}
	return &v1alpha1.Finding{
		Reason: v1alpha1.FindingRuntimeNotFound, Severity: v1alpha1.SeverityWarning, Evidence: n.RuntimeError,
		Remedy: "start the runtime, or name its socket to the kubelet (containerRuntimeEndpoint)",
	}
}
