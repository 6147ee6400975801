package facts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const spec = `cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
    hostPath: /run/nvidia/driver/dev/nvidiactl
  hooks:
  - hookName: createContainer
    path: /opt/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib64]
  mounts:
  - hostPath: /usr/lib64/libcuda.so.550.163.01
    containerPath: /usr/lib64/libcuda.so.550.163.01
  - hostPath: /usr/lib64/libnvidia-egl-gbm.so.1.1.2
    containerPath: /usr/lib64/libnvidia-egl-gbm.so.1.1.2
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
- name: GPU-9a7b6c5d-1234-5678-9abc-def012345678
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
`

func TestParseCDI(t *testing.T) {
	got, err := ParseCDI([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	want := CDI{
		Kind: "nvidia.com/gpu", Devices: 2, DriverVersion: "550.163.01",
		HostPaths: []string{
			"/run/nvidia/driver/dev/nvidiactl", "/usr/lib64/libcuda.so.550.163.01", "/usr/lib64/libnvidia-egl-gbm.so.1.1.2",
			"/opt/nvidia-cdi-hook", "/dev/nvidia0", "/dev/dri/card1",
		},
		Hash: got.Hash,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("differs (-want +got):\n%s", d)
	}
	for name, bad := range map[string]string{"no kind": "cdiVersion: 0.5.0\n", "no version": "kind: nvidia.com/gpu\n", "no YAML": "a: [", "a list": "- a\n"} {
		if _, err := ParseCDI([]byte(bad)); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
}

// TestCDIHash: what two equal nodes may differ in does not count, everything else does.
func TestCDIHash(t *testing.T) {
	base, err := ParseCDI([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		from, to string
		same     bool
	}{
		"another uuid":     {"GPU-9a7b6c5d-1234-5678-9abc-def012345678", "GPU-00000000-1234-5678-9abc-def012345678", true},
		"another minor":    {"/dev/nvidia0", "/dev/nvidia7", true},
		"another card":     {"/dev/dri/card1", "/dev/dri/card12", true},
		"another name":     {`"0"`, `"1"`, true},
		"one device less":  {"- name: GPU-9a7b6c5d-1234-5678-9abc-def012345678\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n", "", true},
		"another driver":   {"libcuda.so.550.163.01", "libcuda.so.550.90.07", false},
		"another hook":     {"/opt/nvidia-cdi-hook", "/usr/bin/nvidia-cdi-hook", false},
		"another argument": {"--folder, /usr/lib64", "--folder, /usr/lib", false},
		"another kind":     {"kind: nvidia.com/gpu", "kind: management.nvidia.com/gpu", false},
		"another root":     {"hostPath: /run/nvidia/driver/dev/nvidiactl", "hostPath: /dev/nvidiactl", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			changed := strings.ReplaceAll(spec, tt.from, tt.to)
			if changed == spec {
				t.Fatal("the change changes nothing")
			}
			got, err := ParseCDI([]byte(changed))
			if err != nil {
				t.Fatal(err)
			}
			if (got.Hash == base.Hash) != tt.same {
				t.Errorf("hash is the same: %t, want %t", got.Hash == base.Hash, tt.same)
			}
		})
	}
}
