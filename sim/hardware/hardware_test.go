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

// newHost is a node's root with n GPUs and, in the OS image, an empty driver.
func newHost(t *testing.T, gpus int) Host {
	t.Helper()
	h := Host{Root: t.TempDir()}
	data, err := os.ReadFile("../machines/T4.yaml")
	if err != nil {
		t.Fatal(err)
	}
	model, err := machine.ParseModel("T4", data)
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
