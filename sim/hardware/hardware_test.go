package hardware

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpu-operator/sim/machine"
)

// newHost is a node's root with n T4s and, in the OS image, an empty driver.
func newHost(t *testing.T, gpus int) Host {
	t.Helper()
	return newHostOf(t, "T4", gpus)
}

// newHostOf is the same with GPUs of a model.
func newHostOf(t *testing.T, name string, gpus int) Host {
	t.Helper()
	h := Host{Root: t.TempDir()}
	data, err := os.ReadFile("../machines/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	model, err := machine.ParseModel(name, data)
	if err != nil {
		t.Fatal(err)
	}
	if gpus > 0 {
		m, err := machine.Make("n", model, gpus)
		if err != nil {
			t.Fatal(err)
		}
		text, err := machine.Format(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.write(MachineFile, string(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01", ""); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h Host) has(path string) bool {
	_, err := os.Lstat(h.path(path))
	return err == nil
}

func TestBootLoadUnload(t *testing.T) {
	t.Parallel()
	h := newHost(t, 2)
	if err := h.Boot(); err != nil {
		t.Fatal(err)
	}
	vendor, err := os.ReadFile(h.path(pci, "0000:00:1e.0/vendor"))
	if err != nil || strings.TrimSpace(string(vendor)) != "0x10de" {
		t.Errorf("PCI vendor %q, %v", vendor, err)
	}
	if h.has("dev/nvidia0") || h.Loaded() != "" {
		t.Error("a driver before one was loaded")
	}
	if err := h.Load("/"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm",
		"lib/firmware/nvidia/550.163.01/gsp_sim.bin", proc + "/driver/nvidia/version", pci + "/0000:00:1e.0/driver"} {
		if !h.has(p) {
			t.Errorf("%s is missing after the driver was loaded", p)
		}
	}
	if h.Loaded() != "550.163.01" {
		t.Errorf("loaded version %q", h.Loaded())
	}
	held := func() ([]string, error) { return []string{"process 7"}, nil }
	if err := h.Unload(held); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "process 7") {
		t.Errorf("a held module: %v", err)
	}
	free := func() ([]string, error) { return nil, nil }
	if err := h.Unload(free); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"dev/nvidia0", "dev/nvidiactl", proc + "/driver/nvidia", mod + "/nvidia"} {
		if h.has(p) {
			t.Errorf("%s is left after the driver was unloaded", p)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	without := newHost(t, 0)
	if err := without.Boot(); err != nil {
		t.Fatal(err)
	}
	if err := without.Load("/"); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("a machine without GPU: %v", err)
	}
	h := newHost(t, 1)
	if err := h.Boot(); err != nil {
		t.Fatal(err)
	}
	if err := h.Load("/nowhere"); err == nil || !strings.Contains(err.Error(), "no driver in") {
		t.Errorf("a root without driver: %v", err)
	}
	if err := h.Load("/"); err != nil {
		t.Fatal(err)
	}
	if err := h.write("run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.1.1", ""); err != nil {
		t.Fatal(err)
	}
	if err := h.Load("/run/nvidia/driver"); !errors.Is(err, ErrInUse) {
		t.Errorf("another version over a loaded one: %v", err)
	}
}

// TestMIGCapabilities: each partition has its capability devices, and only those that
// there are; the minors are the ones that mig-minors lists.
func TestMIGCapabilities(t *testing.T) {
	t.Parallel()
	h := newHostOf(t, "A100-SXM4-40GB", 2)
	if err := errors.Join(h.Boot(), h.Load("/"), h.Set(1, []string{"mig=3g.20gb,1g.5gb"})); err != nil {
		t.Fatal(err)
	}
	minors, err := os.ReadFile(h.path(proc, "driver/nvidia-caps/mig-minors"))
	if err != nil {
		t.Fatal(err)
	}
	// gpu1 starts at 3 + 15 GPU instances of 9 minors each
	for _, line := range []string{"config 1\n", "gpu0/gi1/access 12\n", "gpu1/gi1/access 147\n", "gpu1/gi7/ci0/access 202\n"} {
		if !strings.Contains(string(minors), line) {
			t.Errorf("mig-minors lacks %q", line)
		}
	}
	access, err := os.ReadFile(h.path(capsProc, "gpu1/mig/gi7/ci0/access"))
	if err != nil || !strings.HasPrefix(string(access), "DeviceFileMinor: 202\n") {
		t.Errorf("the compute instance's capability reads %q, %v", access, err)
	}
	for path, want := range map[string]bool{
		"dev/nvidia-caps/nvidia-cap1": true, "dev/nvidia-caps/nvidia-cap147": true, "dev/nvidia-caps/nvidia-cap202": true,
		"dev/nvidia-caps/nvidia-cap12": false, capsProc + "/gpu0/mig/gi1/access": false,
	} {
		if h.has(path) != want {
			t.Errorf("%s is there: %v", path, !want)
		}
	}
	if err := h.Set(1, []string{"mig=off"}); err != nil {
		t.Fatal(err)
	}
	if h.has("dev/nvidia-caps/nvidia-cap147") || !h.has("dev/nvidia-caps/nvidia-cap1") {
		t.Error("after MIG was turned off: a partition's device is left, or the driver's own is gone")
	}
	if err := h.Unload(func() ([]string, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if h.has(capsDir) || h.has(proc+"/driver/nvidia-caps") {
		t.Error("capabilities are left after the driver was unloaded")
	}
}

// TestVersion: the driver of a root is the one that its link names.
func TestVersion(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	if err := h.write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15", ""); err != nil {
		t.Fatal(err)
	}
	if v, err := h.Version("/"); err == nil || !strings.Contains(err.Error(), "2 versions of the driver and no link") {
		t.Errorf("two libraries without a link: %q, %v", v, err)
	}
	if err := os.Symlink("libnvidia-ml.so.570.86.15", h.path("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")); err != nil {
		t.Fatal(err)
	}
	if v, err := h.Version("/"); err != nil || v != "570.86.15" {
		t.Errorf("version %q, %v", v, err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	h := newHost(t, 2)
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := Command{Name: "gpusim", Args: append([]string{"--root", h.Root}, args...), Stdout: &out, Stderr: &out}
		err := c.Run(context.WithoutCancel(t.Context()))
		return out.String(), err
	}
	for _, step := range []struct {
		args []string
		out  string // part of what is printed
		err  string // part of the error
	}{
		{[]string{"boot"}, "", ""},
		{[]string{"show"}, "", "no driver is loaded"},
		{[]string{"set", "0", "xid=79"}, "", "no driver is loaded"},
		{[]string{"modprobe", "nvidia", "--driver-root", "/"}, "", ""},
		{[]string{"set", "1", "temperature=91"}, "", ""},
		{[]string{"show", "1"}, "gpu.1.temperature=91\n", ""},
		{[]string{"set", "x", "temperature=91"}, "", "is not the index of a GPU"},
		{[]string{"dance"}, "", "unknown command"},
	} {
		out, err := run(step.args...)
		if step.err == "" && err != nil || step.err != "" && (err == nil || !strings.Contains(err.Error(), step.err)) {
			t.Errorf("gpusim %v: error %v, want %q", step.args, err, step.err)
		}
		if !strings.Contains(out, step.out) {
			t.Errorf("gpusim %v printed %q, want %q", step.args, out, step.out)
		}
	}
	if h.has(filepath.Join(mod, "nvidia_drm")) {
		t.Error("a module that nobody asked for")
	}
}
