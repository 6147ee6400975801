package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"gpu-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Label marks the nodes of a fleet; kwok manages these and no others.
const Label = "gpulab.local/fleet"

// What the nodes of a fleet are: servers of eight H100.
const (
	gpus     = 8
	driver   = "550.163.01"
	resGPU   = "nvidia.com/gpu"
	gateBase = "nvidia.com/gpu.deploy."
)

// Node is the i-th node of a fleet, from 1.
func Node(i int) *corev1.Node {
	name := fmt.Sprintf("fleet-%04d", i)
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			Label: "true", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: name,
		},
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
	}}
}

// BootID is the boot id of a fleet's node: it never reboots.
func BootID(name string) string {
	sum := sha256.Sum256([]byte("gpulab fleet " + name))
	h := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// Action is what the reporter does next about a node; the zero value is nothing.
type Action struct {
	// Info gives the node its boot id and capacity.
	Info bool
	// Inspector is what the inspector reports.
	Inspector *v1alpha1.GPUNodeStatus
	// Discovery is what feature discovery reports.
	Discovery *v1alpha1.GPUNodeStatus
	// GPUs is what the kubelet offers; nil leaves it.
	GPUs *resource.Quantity
}

// Nothing reports whether there is nothing to do.
func (a Action) Nothing() bool {
	return !a.Info && a.Inspector == nil && a.Discovery == nil && a.GPUs == nil
}

// Next says what a node's processes would report now, given its Node and its
// GPUNode (nil: the operator has not made it yet).
func Next(n *corev1.Node, g *v1alpha1.GPUNode) Action {
	var a Action
	if n.Status.NodeInfo.BootID != BootID(n.Name) {
		a.Info = true
		return a
	}
	open := func(step string) bool { return n.Labels[gateBase+step] == "true" }
	q := n.Status.Allocatable[resGPU]
	if want := int64(gpus); open("device-plugin") != (q.Value() == want) {
		if !open("device-plugin") {
			want = 0
		}
		a.GPUs = resource.NewQuantity(want, resource.DecimalSI)
	}
	if g == nil {
		return a
	}
	installed := len(g.Status.Evidence) > 0
	if g.Status.Facts == nil || open("container-toolkit") && !installed {
		s := inspected(n.Name, open("container-toolkit"))
		a.Inspector = &s
	}
	if open("gpu-feature-discovery") && g.Status.Discovery == nil {
		a.Discovery = &v1alpha1.GPUNodeStatus{Discovery: &v1alpha1.Discovery{BootID: BootID(n.Name), Labels: map[string]string{
			"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": fmt.Sprint(gpus), "nvidia.com/gpu.memory": "81559",
		}}}
	}
	return a
}

// inspected is what an inspector says of a node, before and after the toolkit's work.
func inspected(name string, toolkit bool) v1alpha1.GPUNodeStatus {
	const started = 1000
	s := v1alpha1.GPUNodeStatus{
		Facts: &v1alpha1.NodeFacts{
			BootID: BootID(name), Kernel: "6.8.0", Arch: "amd64", OSID: "debian", OSVersion: "12",
			RuntimeVersion: "containerd://2.4.2", RuntimeConfigPath: "/etc/containerd/config.toml", RuntimeStartedAt: started,
		},
		PCIScanned: true, GPUCount: gpus, Drift: "None",
		Driver:      &v1alpha1.DriverState{Kind: "Host", Root: "/", LoadedVersion: driver, LibraryVersion: driver, Ready: true},
		Fingerprint: &v1alpha1.Fingerprint{Hash: "0000", Short: "0000"},
	}
	for i := range gpus {
		s.PCIGPUs = append(s.PCIGPUs, v1alpha1.PCIGPU{Address: fmt.Sprintf("0000:%02x:00.0", 16+i), DeviceID: "2330", Class: "030200", Driver: "nvidia"})
	}
	if toolkit {
		s.Evidence = []v1alpha1.StepEvidence{{
			Step: "container-toolkit", BootID: s.Facts.BootID, Ready: true, Phase: "Applied", DriverVersion: driver,
			Handlers: []string{"nvidia", "nvidia-management", "runc"}, RuntimeStartedAt: started,
		}}
		s.CDI = []v1alpha1.CDISpec{{Path: "/var/run/cdi/nvidia.com-gpu.yaml", Kind: "nvidia.com/gpu", Devices: 2*gpus + 1, DriverVersion: driver}}
		s.Fingerprint = &v1alpha1.Fingerprint{Hash: "1111", Short: "1111"}
	}
	return s
}
