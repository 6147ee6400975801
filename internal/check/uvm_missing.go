package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// uvmMissing: the driver answers, and unified memory is not there.
func uvmMissing(n facts.Node) *v1alpha1.Finding {
	_, loaded := facts.FindModule(n.Modules, "nvidia_uvm")
	if !n.Driver.Ready || !needsDriver(n) || loaded && n.UVMDevice {
		return nil
	}
	evidence := "module nvidia_uvm is not loaded"
	if loaded {
		evidence = "module nvidia_uvm is loaded, and its device node is not there"
	}
	return &v1alpha1.Finding{
		Reason: v1alpha1.FindingUVMMissing, Severity: v1alpha1.SeverityError, Evidence: evidence,
		Remedy: "run nvidia-modprobe -u -c 0 on the node; without it nvidia-smi works and every CUDA program fails",
	}
}
