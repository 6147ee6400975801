package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpu-operator/sim/machine"
)

// Paths below the root of a node.
const (
	// MachineFile describes the hardware; a node without one has no GPU.
	MachineFile = "etc/gpusim/machine.yaml"
	// Tree is where the simulated kernel shows its files.
	Tree = "run/gpusim"
	pci  = Tree + "/sys/bus/pci/devices"
	mod  = Tree + "/sys/module"
	proc = Tree + "/proc"
)

// Host is a node's root directory. Real makes device nodes real ones; a test
// without root rights has files in their place.
type Host struct {
	Root string
	Real bool
}

func (h Host) path(p ...string) string {
	return filepath.Join(append([]string{h.Root}, p...)...)
}

// Machine reads the node's hardware.
func (h Host) Machine() (machine.Machine, error) {
	data, err := os.ReadFile(h.path(MachineFile))
	if errors.Is(err, fs.ErrNotExist) {
		return machine.Machine{}, nil
	}
	if err != nil {
		return machine.Machine{}, fmt.Errorf("reading the hardware's description: %w", err)
	}
	return machine.Parse(data)
}

// write makes one file of the tree with its directories.
func (h Host) write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(h.path(path)), 0o755); err != nil {
		return fmt.Errorf("making the directory of %q: %w", path, err)
	}
	if err := os.WriteFile(h.path(path), []byte(content), 0o644); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

// device is one device of the PCI tree.
type device struct {
	bus, vendor, id, class, subVendor, subID string
	numa                                     int
}

// Boot shows the hardware: the PCI tree with the machine's GPUs and, as on any
// machine, devices that are none; modules and /proc files of a kernel without the
// GPU driver.
func (h Host) Boot() error {
	m, err := h.Machine()
	if err != nil {
		return err
	}
	devices := []device{
		{"0000:00:00.0", "0x8086", "0x0958", "0x060000", "0x8086", "0x0000", 0},
		{"0000:02:00.0", "0x15b3", "0x101d", "0x020000", "0x15b3", "0x0040", 0},
	}
	for _, g := range m.GPUs {
		devices = append(devices, device{
			bus: g.Bus, vendor: "0x10de", id: "0x" + strings.ToLower(g.DeviceID), class: "0x" + g.Class,
			subVendor: "0x10de", subID: "0x" + strings.ToLower(g.Values["pci.subsystem_id"][2:6]), numa: g.NUMA,
		})
	}
	for _, d := range devices {
		for file, value := range map[string]string{
			"vendor": d.vendor, "device": d.id, "class": d.class, "numa_node": fmt.Sprint(d.numa),
			"subsystem_vendor": d.subVendor, "subsystem_device": d.subID, "revision": "0xa1", "irq": "16", "enable": "0",
		} {
			if err := h.write(filepath.Join(pci, d.bus, file), value+"\n"); err != nil {
				return err
			}
		}
	}
	for file, content := range map[string]string{
		mod + "/kernel/parameters/panic": "0\n",
		proc + "/modules":                kernelModules,
		proc + "/devices":                kernelDevices,
	} {
		if err := h.write(file, content); err != nil {
			return err
		}
	}
	return os.MkdirAll(h.path(proc, "driver"), 0o755)
}

// kernelModules and kernelDevices are what a kernel without the GPU driver shows.
const (
	kernelModules = "overlay 188416 2 - Live 0x0000000000000000\nip_tables 36864 0 - Live 0x0000000000000000\n"
	kernelDevices = "Character devices:\n  1 mem\n  5 /dev/tty\n 10 misc\n\nBlock devices:\n259 blkext\n"
)
