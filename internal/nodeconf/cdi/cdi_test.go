package cdi

import (
	"slices"
	"strings"
	"testing"

	"gpu-operator/internal/fault"
)

func TestCheck(t *testing.T) {
	spec := Specs()[0]
	there := func(p string) bool { return slices.Contains([]string{"/dev/nvidia0", "/usr/lib/libcuda.so.550.1"}, p) }
	tests := []struct {
		name    string
		devices map[string]int
		paths   []string
		says    string // part of the error; empty: none
	}{
		{"complete", map[string]int{"0": 1, "all": 1}, []string{"/dev/nvidia0", "/usr/lib/libcuda.so.550.1"}, ""},
		{"no device", nil, nil, "no device"},
		{"a device without a node would start without its GPU", map[string]int{"0": 1, "1": 0}, nil, `device "1"`},
		{"a library of the driver before", map[string]int{"0": 1}, []string{"/dev/nvidia0", "/usr/lib/libcuda.so.535.1"}, "/usr/lib/libcuda.so.535.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(spec, tt.devices, tt.paths, there)
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) || fault.ReasonOf(err, "") != fault.ReasonCDIFailed {
				t.Errorf("Check = %v, want %q", err, tt.says)
			}
		})
	}
}

func TestDriver(t *testing.T) {
	d := Driver{Root: "/run/nvidia/driver", Version: "1"}
	if got := d.DevRoot(func(string) bool { return false }); got != "/" {
		t.Errorf("DevRoot without own nodes = %q", got)
	}
	if got := d.DevRoot(func(p string) bool { return p == "/run/nvidia/driver/dev/nvidiactl" }); got != d.Root {
		t.Errorf("DevRoot with own nodes = %q", got)
	}
	changed := d
	changed.Devices = []string{"/dev/nvidia1"}
	if d.Key() == changed.Key() {
		t.Error("another device list has the same key")
	}
}
