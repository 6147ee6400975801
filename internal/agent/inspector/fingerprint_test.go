package inspector

import (
	"testing"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// TestFingerprintEqualOnPeers: what differs between equal nodes does not count.
func TestFingerprintEqualOnPeers(t *testing.T) {
	a, b := unpack(t, "ready").scan(t), unpack(t, "ready-peer").scan(t)
	if a.Identity.BootID == b.Identity.BootID || len(a.GPUs) == len(b.GPUs) {
		t.Fatal("the two hosts do not differ in boot and number of GPUs: the test shows nothing")
	}
	if x, y := facts.FingerprintOf(a), facts.FingerprintOf(b); x.Hash != y.Hash {
		t.Errorf("fingerprints of equal nodes differ:\n%v\n%v", x.Leaves, y.Leaves)
	}
}

// TestFingerprintDiffers: each thing that must be the same counts, alone.
func TestFingerprintDiffers(t *testing.T) {
	base := unpack(t, "ready")
	want := facts.FingerprintOf(base.scan(t))
	tests := map[string]struct {
		// change is made to what was seen
		change func(*facts.Node)
		// leaf is the only leaf that may differ
		leaf string
	}{
		"kernel":          {func(n *facts.Node) { n.Identity.Kernel = "6.8.0-61-generic" }, facts.LeafKernel},
		"arch":            {func(n *facts.Node) { n.Identity.Arch = "arm64" }, facts.LeafArch},
		"os version":      {func(n *facts.Node) { n.Identity.OSVersion = "22.04" }, facts.LeafOS},
		"driver version":  {func(n *facts.Node) { n.Driver.LoadedVersion = "535.1" }, facts.LeafDriverVersion},
		"driver kind":     {func(n *facts.Node) { n.Driver.Kind = facts.DriverManaged }, facts.LeafDriverKind},
		"runtime version": {func(n *facts.Node) { n.Identity.RuntimeVersion = "containerd://1.7.2" }, facts.LeafRuntimeVersion},
		"handlers":        {func(n *facts.Node) { n.Evidence[0].Handlers = []string{"nvidia"} }, facts.LeafHandlers},
		"runtime restart": {func(n *facts.Node) { n.Identity.RuntimeStartedAt++ }, facts.LeafHandlers},
		"plugin config":   {func(n *facts.Node) { n.Evidence[1].Hash = "def" }, facts.LeafDevicePlugin},
		"file of ours":    {func(n *facts.Node) { n.Files[0].Hash = "0" }, facts.LeafFilePrefix + "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
		"file gone":       {func(n *facts.Node) { n.Files[1].Hash = "" }, facts.LeafFilePrefix + "/etc/containerd/conf.d/99-nvidia.toml"},
		"CDI spec":        {func(n *facts.Node) { n.CDI[0].Hash = "0" }, facts.LeafCDIPrefix + "/var/run/cdi/nvidia.com-gpu.yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := base.scan(t)
			tt.change(&n)
			got := facts.FingerprintOf(n)
			if got.Hash == want.Hash {
				t.Errorf("fingerprint did not change")
			}
			if diff := differing(want, got); len(diff) != 1 || diff[0] != tt.leaf {
				t.Errorf("leaves that differ: %q, want only %q", diff, tt.leaf)
			}
		})
	}
}

// differing returns the names of leaves that are not the same in both.
func differing(a, b *v1alpha1.Fingerprint) []string {
	values := map[string]string{}
	for _, l := range a.Leaves {
		values[l.Name] = l.Value
	}
	var out []string
	for _, l := range b.Leaves {
		if values[l.Name] != l.Value {
			out = append(out, l.Name)
		}
		delete(values, l.Name)
	}
	for name := range values {
		out = append(out, name)
	}
	return out
}
