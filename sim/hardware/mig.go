package hardware

import (
	"fmt"
	"os"
	"strings"

	"gpu-operator/sim/machine"
)

// majorCaps is the major of capability devices: given by the kernel at load, here
// always this one.
const majorCaps = 509

// Minors of capability devices, as the driver lists them in mig-minors: two for the
// whole, then fifteen GPU instances of a GPU with eight compute instances each.
const (
	minorConfig     = 1
	minorMonitor    = 2
	firstMinor      = 3
	instancesPerGPU = 15
	minorsPerGI     = 9
	lastGPU         = 8
)

// capsDir holds the capability devices, capsProc what describes each of them.
const (
	capsDir  = "dev/nvidia-caps"
	capsProc = proc + "/driver/nvidia/capabilities"
)

// giMinor is the minor of a GPU instance's capability device; its compute
// instances' follow.
func giMinor(gpu, gi int) int { return firstMinor + (gpu*instancesPerGPU+gi)*minorsPerGI }

// migMinors is the driver's list of capability names and minors.
func migMinors() string {
	var b strings.Builder
	fmt.Fprintf(&b, "config %d\nmonitor %d\n", minorConfig, minorMonitor)
	for gpu := range lastGPU {
		for gi := range instancesPerGPU {
			at := giMinor(gpu, gi)
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", gpu, gi, at)
			for ci := range minorsPerGI - 1 {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", gpu, gi, ci, at+1+ci)
			}
		}
	}
	return b.String()
}

// showMIG makes the capability devices and files of the partitions that a record
// has, and takes away those of former ones.
func (h Host) showMIG(r machine.Record) error {
	caps := map[string]int{"mig/config": minorConfig, "mig/monitor": minorMonitor}
	for i, gpu := range r.GPUs {
		for _, m := range machine.MIGInstances(gpu) {
			at := giMinor(i, m.GPUInstance)
			caps[fmt.Sprintf("gpu%d/mig/gi%d/access", i, m.GPUInstance)] = at
			caps[fmt.Sprintf("gpu%d/mig/gi%d/ci%d/access", i, m.GPUInstance, m.ComputeInstance)] = at + 1 + m.ComputeInstance
		}
	}
	for _, old := range []string{capsDir, capsProc} {
		if err := os.RemoveAll(h.path(old)); err != nil {
			return fmt.Errorf("replacing MIG's capabilities: %w", err)
		}
	}
	for name, minor := range caps {
		if err := h.write(capsProc+"/"+name, fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor)); err != nil {
			return err
		}
		if err := h.node(fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor), majorCaps, minor); err != nil {
			return err
		}
	}
	return h.write(proc+"/driver/nvidia-caps/mig-minors", migMinors())
}
