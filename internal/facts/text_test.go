package facts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/api/v1alpha1"
)

func TestParseOSRelease(t *testing.T) {
	tests := map[string]struct {
		// in is the file
		in   string
		want OSRelease
	}{
		"quoted":       {"NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\"\n", OSRelease{"ubuntu", "24.04"}},
		"single quote": {"ID='rhel'\nVERSION_ID='9.4'\n", OSRelease{"rhel", "9.4"}},
		"rolling":      {"ID=arch\nBUILD_ID=rolling\n", OSRelease{ID: "arch"}},
		"comments":     {"# ID=no\n\nID=debian\n", OSRelease{ID: "debian"}},
		"no file":      {"", OSRelease{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, ParseOSRelease([]byte(tt.in))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseDriverVersion(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"proprietary": {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\nGCC version: 12.2.0\n", "550.163.01"},
		"open":        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", "570.86.15"},
		"open arm":    {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build", "580.65.06"},
		"two parts":   {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  x\n", "535.54"},
		"compiler":    {"GCC version:  gcc version 12.2.0 (Debian)\n", ""},
		"empty":       {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ParseDriverVersion([]byte(tt.in)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseSecureBoot(t *testing.T) {
	for in, want := range map[string]string{"\x06\x00\x00\x00\x01": "enabled", "\x06\x00\x00\x00\x00": "disabled", "": "unknown", "\x01": "unknown"} {
		if got := ParseSecureBoot([]byte(in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestPCIEntry(t *testing.T) {
	tests := map[string]struct {
		in   PCIEntry
		want v1alpha1.PCIGPU
		gpu  bool
	}{
		"3D controller":  {PCIEntry{"0000:19:00.0", "0x10de\n", "0x2330\n", "0x030200\n", "nvidia"}, v1alpha1.PCIGPU{Address: "0000:19:00.0", DeviceID: "2330", Class: "030200", Driver: "nvidia"}, true},
		"VGA, no driver": {PCIEntry{"0000:01:00.0", "0x10DE", "0x1eb8", "0x030000", ""}, v1alpha1.PCIGPU{Address: "0000:01:00.0", DeviceID: "1eb8", Class: "030000"}, true},
		"audio function": {PCIEntry{"0000:01:00.1", "0x10de", "0x10f8", "0x040300", ""}, v1alpha1.PCIGPU{}, false},
		"NVSwitch":       {PCIEntry{"0000:05:00.0", "0x10de", "0x22a3", "0x068000", ""}, v1alpha1.PCIGPU{}, false},
		"other vendor":   {PCIEntry{"0000:02:00.0", "0x1002", "0x740c", "0x030200", ""}, v1alpha1.PCIGPU{}, false},
		"leading zeros":  {PCIEntry{"0000:03:00.0", "0x10de", "0x20", "0x30200", ""}, v1alpha1.PCIGPU{Address: "0000:03:00.0", DeviceID: "0020", Class: "030200"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, gpu := tt.in.GPU()
			if d := cmp.Diff(tt.want, got); d != "" || gpu != tt.gpu {
				t.Errorf("is a GPU: %t, want %t; %s", gpu, tt.gpu, d)
			}
		})
	}
}

func TestLibraryVersion(t *testing.T) {
	for in, want := range map[string]string{
		"libnvidia-ml.so.550.163.01": "550.163.01", "libcuda.so.535.54": "535.54", "libnvidia-ml.so.1": "",
		"libnvidia-ml.so": "", "libnvidia-egl-gbm.so.1.1.2": "1.1.2", "nvidia-smi": "", "": "",
	} {
		if got := LibraryVersion(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestEvidenceRoundTrip(t *testing.T) {
	want := v1alpha1.StepEvidence{Step: v1alpha1.StepToolkit, BootID: "b", Ready: true, Handlers: []string{"nvidia"}, RuntimeStartedAt: 7}
	data, err := FormatEvidence(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseEvidence(data)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("error %v; differs (-want +got):\n%s", err, d)
	}
	for _, bad := range []string{"", "{}", `{"version":2,"step":"driver","bootID":"b"}`, `{"version":1,"bootID":"b"}`, `{"version":1,"step":"driver"}`} {
		if e, err := ParseEvidence([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v, want an error", bad, e)
		}
	}
}
