package gpu

import (
	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// pciDir is where PCI devices are below a sysfs root.
const pciDir = names.PCIDevicesDir

// partitions returns the MIG devices of a GPU.
func partitions(lib nvml.Interface, h nvml.Device) []facts.MIGDevice {
	most, ret := h.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var out []facts.MIGDevice
	for i := range most {
		m, ret := h.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // an index without a device
		}
		if p, ok := partition(lib, m); ok {
			out = append(out, p)
		}
	}
	return out
}

// partition describes one MIG device.
func partition(lib nvml.Interface, m nvml.Device) (facts.MIGDevice, bool) {
	var p facts.MIGDevice
	var ret nvml.Return
	if p.UUID, ret = m.GetUUID(); ret != nvml.SUCCESS {
		return p, false
	}
	a, ret := m.GetAttributes()
	if ret != nvml.SUCCESS {
		return p, false
	}
	gi, ret := m.GetGpuInstanceId()
	if ret != nvml.SUCCESS {
		return p, false
	}
	ci, ret := m.GetComputeInstanceId()
	if ret != nvml.SUCCESS {
		return p, false
	}
	p.GPUInstance, p.ComputeInstance = gi, ci
	p.Memory = a.MemorySizeMB << 20
	p.GPUSlices, p.ComputeSlices = int(a.GpuInstanceSliceCount), int(a.ComputeInstanceSliceCount)
	p.Multiprocessors, p.CopyEngines = int(a.MultiprocessorCount), int(a.SharedCopyEngineCount)
	p.Decoders, p.Encoders = int(a.SharedDecoderCount), int(a.SharedEncoderCount)
	p.JPEGEngines, p.OpticalFlowEngines = int(a.SharedJpegCount), int(a.SharedOfaCount)
	d, err := device.New(lib).NewMigDevice(m)
	if err != nil {
		return p, false
	}
	// The name follows from the profiles that the GPU offers; NVIDIA's own library
	// knows how.
	name, err := d.GetProfile()
	if err != nil {
		return p, false
	}
	p.Profile = name.String()
	return p, true
}
