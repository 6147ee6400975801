package facts

import (
	"slices"
	"strings"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// shortDigits is the length of a fingerprint's short form.
const shortDigits = 10

// Names of fingerprint leaves. A leaf "file PATH" is a file that we put on the host.
const (
	LeafKernel         = "kernel"
	LeafArch           = "arch"
	LeafOS             = "os"
	LeafDriverKind     = "driver.kind"
	LeafDriverVersion  = "driver.version"
	LeafRuntimeVersion = "runtime.version"
	LeafHandlers       = "runtime.handlers"
	LeafDevicePlugin   = "device-plugin.config"
	LeafFilePrefix     = "file "
	LeafCDIPrefix      = "cdi "
)

// FingerprintOf returns the hash tree of a node.
//
// Leaves are what must be the same on equal nodes: kernel, architecture, operating
// system, driver, runtime and its handlers as proven in this boot, every whole
// file that our ledger holds (by the hash of what is on disk now, so that drift
// shows), each CDI spec of ours without device identities, and the device plugin's
// configuration. What differs between equal nodes is no leaf: the boot, uuids,
// serial numbers, how many GPUs there are, directories that we made on the way, and
// files of somebody else in which we only own a line.
// A leaf without a value is left out, so an unknown is not equal to a known one.
func FingerprintOf(n Node) *v1alpha1.Fingerprint {
	leaves := []v1alpha1.FingerprintLeaf{}
	add := func(name, value string) {
		if value != "" {
			leaves = append(leaves, v1alpha1.FingerprintLeaf{Name: name, Value: value})
		}
	}
	add(LeafKernel, n.Identity.Kernel)
	add(LeafArch, n.Identity.Arch)
	add(LeafOS, strings.TrimSpace(n.Identity.OSID+" "+n.Identity.OSVersion))
	add(LeafDriverKind, n.Driver.Kind)
	add(LeafDriverVersion, n.Driver.LoadedVersion)
	add(LeafRuntimeVersion, n.Identity.RuntimeVersion)
	for _, e := range n.Evidence {
		switch {
		case e.Step == v1alpha1.StepToolkit && e.RuntimeStartedAt == n.Identity.RuntimeStartedAt:
			add(LeafHandlers, strings.Join(slices.Sorted(slices.Values(e.Handlers)), ","))
		case e.Step == v1alpha1.StepDevicePlugin:
			add(LeafDevicePlugin, e.Hash)
		}
	}
	for _, f := range n.Files {
		if !strings.HasPrefix(f.Path, names.CDIDir+"/") {
			add(LeafFilePrefix+f.Path, f.Hash)
		}
	}
	for _, c := range n.CDI {
		if strings.HasPrefix(c.Path, names.CDIDir+"/") {
			add(LeafCDIPrefix+c.Path, c.Hash)
		}
	}
	return sealed(leaves)
}

// sealed sorts the leaves and hashes them.
func sealed(leaves []v1alpha1.FingerprintLeaf) *v1alpha1.Fingerprint {
	slices.SortFunc(leaves, func(a, b v1alpha1.FingerprintLeaf) int { return strings.Compare(a.Name, b.Name) })
	lines := make([]string, 0, len(leaves))
	for _, l := range leaves {
		lines = append(lines, l.Name+"="+l.Value)
	}
	hash := HashLines(lines)
	return &v1alpha1.Fingerprint{Hash: hash, Short: hash[:shortDigits], Leaves: leaves}
}
