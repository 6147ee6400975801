package label

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"gpu-operator/internal/device"
	"gpu-operator/internal/facts"
)

var update = flag.Bool("update", false, "write the golden files")

// gpuNode has n H100s.
func gpuNode(n int) facts.Inventory {
	inv := facts.Inventory{DriverVersion: "550.163.01", CUDAVersion: 12040}
	for i := range n {
		inv.Devices = append(inv.Devices, facts.Device{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-%d", i), Product: "NVIDIA H100 80GB HBM3", Memory: 85520809984, Class: "030200",
			ComputeMajor: 9, MIGCapable: true, State: facts.DevicePresent,
		})
	}
	return inv
}

// partition makes partitions on a GPU.
func partition(inv facts.Inventory, gpu int, profiles ...string) facts.Inventory {
	d := &inv.Devices[gpu]
	d.MIGEnabled = true
	for i, p := range profiles {
		d.MIG = append(d.MIG, facts.MIGDevice{
			UUID: fmt.Sprintf("MIG-%d-%d", gpu, i), Profile: p, Memory: 9856 << 20, GPUSlices: 1, ComputeSlices: 1, Multiprocessors: 16, CopyEngines: 1, Decoders: 1, JPEGEngines: 1,
		})
	}
	return inv
}

func TestLabels(t *testing.T) {
	mixed := gpuNode(3)
	mixed.Devices[0].Product, mixed.Devices[0].ComputeMajor = "Tesla T4", 7
	lost := gpuNode(8)
	lost.Devices[3].State = facts.DeviceLost
	for name, in := range map[string]Input{
		"h100":         {Inventory: gpuNode(8), Machine: "DGX H100", Timestamp: 1700000000, Strategy: device.MIGNone},
		"lost":         {Inventory: lost, Strategy: device.MIGNone},
		"mig-mixed":    {Inventory: partition(gpuNode(2), 1, "1g.10gb", "1g.10gb", "1g.10gb+me"), Strategy: device.MIGMixed},
		"mig-only":     {Inventory: partition(gpuNode(1), 0, "1g.10gb"), Strategy: device.MIGMixed},
		"mig-single":   {Inventory: partition(partition(gpuNode(2), 0, "1g.10gb", "1g.10gb"), 1, "1g.10gb", "1g.10gb"), Strategy: device.MIGSingle},
		"mig-invalid":  {Inventory: partition(gpuNode(2), 0, "1g.10gb"), Strategy: device.MIGSingle},
		"two-models":   {Inventory: mixed, Strategy: device.MIGNone},
		"no-gpu":       {Inventory: facts.Inventory{DriverVersion: "550.163.01"}},
		"short-driver": {Inventory: facts.Inventory{DriverVersion: "610.12", Devices: gpuNode(1).Devices}, Strategy: device.MIGNone},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			labels := Of(in)
			for _, k := range slices.Sorted(maps.Keys(labels)) {
				fmt.Fprintf(&b, "%s=%s\n", k, labels[k])
				for _, problem := range slices.Concat(validation.IsQualifiedName(k), validation.IsValidLabelValue(labels[k])) {
					t.Errorf("%s=%s: %s", k, labels[k], problem)
				}
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValueIsValid: whatever a driver or a BIOS calls its product, the label is one
// that Kubernetes takes, and text that is valid already stays as it is.
func TestValueIsValid(t *testing.T) {
	valid := func(text string) bool {
		v := Value(text)
		return len(validation.IsValidLabelValue(v)) == 0 && Value(v) == v
	}
	if err := quick.Check(valid, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
	ascii := func(raw []byte) bool {
		for i := range raw {
			raw[i] = " -_.aZ9/()®\t"[int(raw[i])%12]
		}
		return valid(string(raw))
	}
	if err := quick.Check(ascii, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
	for in, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "NVIDIA-A100-SXM4-40GB", "Tesla T4": "Tesla-T4", "  (x) ": "x", "®": "", "Quadro RTX 6000/8000": "Quadro-RTX-60008000",
		strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62), "DGX A100 920-23687-2530-000": "DGX-A100-920-23687-2530-000",
	} {
		if got := Value(in); got != want {
			t.Errorf("Value(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzValue(f *testing.F) {
	f.Add("NVIDIA H100 80GB HBM3")
	f.Fuzz(func(t *testing.T, text string) {
		if problems := validation.IsValidLabelValue(Value(text)); len(problems) > 0 {
			t.Errorf("Value(%q) = %q: %v", text, Value(text), problems)
		}
	})
}

func TestFamily(t *testing.T) {
	for cc, want := range map[[2]int]string{
		{7, 0}: "volta", {7, 5}: "turing", {8, 0}: "ampere", {8, 6}: "ampere", {8, 9}: "ada-lovelace", {9, 0}: "hopper", {10, 0}: "blackwell", {12, 0}: "blackwell", {4, 2}: "undefined",
	} {
		if got := Family(cc[0], cc[1]); got != want {
			t.Errorf("Family(%v) = %s, want %s", cc, got, want)
		}
	}
}
