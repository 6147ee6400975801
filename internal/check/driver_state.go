package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// driverState: there is a GPU and the driver cannot answer. A GPU that belongs to
// virtual machines needs none.
func driverState(n facts.Node) *v1alpha1.Finding {
	if n.Driver.Ready || n.Driver.Reason == "" || !needsDriver(n) {
		return nil
	}
	severity := v1alpha1.SeverityError
	if n.Driver.Reason == v1alpha1.FindingDriverNotLoaded {
		// The ordinary state of a node whose driver the operator is about to bring.
		severity = v1alpha1.SeverityWarning
	}
	return &v1alpha1.Finding{Reason: n.Driver.Reason, Severity: severity, Evidence: n.Driver.Message, Remedy: driverRemedy(n.Driver.Reason)}
}

// needsDriver says whether there is a GPU for containers.
func needsDriver(n facts.Node) bool {
	for _, g := range n.GPUs {
		if g.Driver != driverVFIO {
			return true
		}
	}
	return false
}

// driverRemedy says what to do about a driver that cannot answer.
func driverRemedy(reason string) string {
	switch reason {
	case v1alpha1.FindingDriverNotLoaded:
		return "install and load a driver on the host, or let the operator bring it (spec.driver.enabled: true)"
	case v1alpha1.FindingDriverLibraryMissing:
		return "install the user-space part of the same driver version, where the linker finds it"
	case v1alpha1.FindingDriverVersionMismatch:
		return "reload module nvidia when no process uses it, or reboot the node"
	case v1alpha1.FindingDriverDeviceMissing:
		return "run nvidia-modprobe -c 0 on the node, or repair the udev rule that makes the device nodes"
	}
	return "see the evidence"
}
