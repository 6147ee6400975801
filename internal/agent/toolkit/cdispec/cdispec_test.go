package cdispec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpu-operator/internal/nodeconf/cdi"
)

func sample() *specs.Spec {
	return &specs.Spec{
		Kind: "nvidia.com/gpu",
		ContainerEdits: specs.ContainerEdits{
			DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidiactl", HostPath: "/host/dev/nvidiactl"}},
			Mounts:      []*specs.Mount{{HostPath: "/host/usr/lib/libcuda.so.1", ContainerPath: "/usr/lib/libcuda.so.1"}},
			Hooks:       []*specs.Hook{{HookName: "createContainer", Path: "/usr/local/nvidia/toolkit/nvidia-cdi-hook"}},
		},
		Devices: []specs.Device{{Name: "0", ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0", HostPath: "/host/dev/nvidia0"}}}}, {Name: "1"}},
	}
}

// TestToHost: what the agent sees below its mount point is written as the host sees it.
func TestToHost(t *testing.T) {
	raw := sample()
	g := Generator{HostRoot: "/host"}
	if err := g.toHost(raw, cdi.Driver{Root: "/"}, "/"); err != nil {
		t.Fatal(err)
	}
	want := []string{"/dev/nvidia0", "/dev/nvidiactl", "/usr/lib/libcuda.so.1", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"}
	if got := hostPaths(raw); !slices.Equal(got, want) {
		t.Errorf("host paths = %q, want %q", got, want)
	}
}

// TestManagedRoot: libraries of a driver in a root of its own, device nodes of the host.
func TestManagedRoot(t *testing.T) {
	raw := sample()
	raw.ContainerEdits.Mounts[0].HostPath = "/host/run/nvidia/driver/usr/lib/libcuda.so.1"
	if err := (Generator{HostRoot: "/host"}).toHost(raw, cdi.Driver{Root: "/run/nvidia/driver"}, "/"); err != nil {
		t.Fatal(err)
	}
	got := hostPaths(raw)
	if !slices.Contains(got, "/run/nvidia/driver/usr/lib/libcuda.so.1") || !slices.Contains(got, "/dev/nvidia0") {
		t.Errorf("host paths = %q", got)
	}
}

// TestFinish: a spec that would let containers fail or start without their GPU is refused.
func TestFinish(t *testing.T) {
	g := Generator{Exists: func(string) bool { return true }}
	d := cdi.Driver{Version: "550.1", BootID: "b"}
	if _, err := g.finish(cdi.Specs()[0], d, sample()); err == nil || !strings.Contains(err.Error(), `device "1"`) {
		t.Errorf("a device without a node: %v", err)
	}
	raw := sample()
	raw.Devices = raw.Devices[:1]
	data, err := g.finish(cdi.Specs()[0], d, raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpu-operator.nvidia.com/driver-version: \"550.1\"", "cdiVersion: 0.6.0", "kind: nvidia.com/gpu"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("spec lacks %q:\n%s", want, data)
		}
	}
	g.Exists = func(p string) bool { return !strings.Contains(p, "libcuda") }
	if _, err := g.finish(cdi.Specs()[0], d, raw); err == nil || !strings.Contains(err.Error(), "libcuda.so.1") {
		t.Errorf("a library that is gone: %v", err)
	}
}

// TestGenerateWithoutDriver: a host without a driver gives an error, no spec.
func TestGenerateWithoutDriver(t *testing.T) {
	g := Generator{HostRoot: t.TempDir(), Log: t.Logf, Exists: func(string) bool { return true }}
	for _, s := range cdi.Specs() {
		if data, err := g.Generate(s, cdi.Driver{Root: "/", Version: "1"}); err == nil {
			t.Errorf("%s: %s", s.Path, data)
		}
	}
}

// TestMirrorDevices: later nodes of the host appear, changed ones are replaced.
func TestMirrorDevices(t *testing.T) {
	hostDev, dev := t.TempDir(), t.TempDir()
	mknod := func(dir, name string, major, minor uint32) {
		t.Helper()
		err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor)))
		if errors.Is(err, unix.EPERM) {
			t.Skip("making device nodes needs root")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mknod(hostDev, "nvidia0", 195, 0)
	mknod(hostDev, "nvidia-uvm", 510, 0)
	mknod(hostDev, "zero", 1, 5)
	mknod(dev, "nvidia-uvm", 509, 0) // the module was loaded anew with another number
	if err := os.WriteFile(filepath.Join(hostDev, "nvidia-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := MirrorDevices(hostDev, dev); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	entries, _ := os.ReadDir(dev)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, []string{"nvidia-uvm", "nvidia0"}) {
		t.Errorf("nodes = %q", got)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dev, "nvidia-uvm"), &st); err != nil || unix.Major(st.Rdev) != 510 {
		t.Errorf("nvidia-uvm has major %d, %v", unix.Major(st.Rdev), err)
	}
	if err := MirrorDevices(filepath.Join(hostDev, "missing"), dev); err == nil {
		t.Error("a missing directory is no error")
	}
}
