package check

import (
	"fmt"
	"strings"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// kubeletRoot: the kubelet keeps its state elsewhere than usual.
func kubeletRoot(n facts.Node) *v1alpha1.Finding {
	if !n.Kubelet.Found || n.Kubelet.RootDir == names.KubeletRoot {
		return nil
	}
	sockets := strings.Join(n.DevicePluginSockets, ", ")
	if sockets == "" {
		sockets = "none"
	}
	return &v1alpha1.Finding{
		Reason: v1alpha1.FindingKubeletRootMoved, Severity: v1alpha1.SeverityWarning,
		Evidence: fmt.Sprintf("the kubelet runs with --root-dir=%s; registration sockets found: %s", n.Kubelet.RootDir, sockets),
		Remedy:   "mount the directory of the socket that exists into the device plugin",
	}
}
