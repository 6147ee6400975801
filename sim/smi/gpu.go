package smi

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// notAvailable is what stands for a value that the GPU does not have.
const notAvailable = "[N/A]"

// gpu is what one GPU answers; a pointer is nil when it does not have the value.
type gpu struct {
	index                            int
	name, uuid, serial, bus, vbios   string
	total, used, free, reserved      uint64 // bytes
	temperature, memoryTemperature   *uint32
	power, limit                     *uint32 // milliwatt
	utilisation, memoryUtilisation   *uint32 // percent
	sm, memory, smMax, memoryMax     *uint32 // MHz
	pstate, persistence, computeMode *uint32
	eccMode                          *uint32
	eccUncorrected                   *uint64
	migMode                          *uint32
	deviceID, generation, width, fan *uint32
	capability                       string
	lost                             bool
	processes                        []nvml.ProcessInfo
	display                          *uint32
	partitions                       []partition
}

// partition is one MIG device of a GPU.
type partition struct {
	profile, uuid string
}

// board is everything that one call shows.
type board struct {
	driver, cuda string
	gpus         []gpu
}

// read asks NVML for everything.
func read(lib nvml.Interface) (board, error) {
	var m board
	var r nvml.Return
	if m.driver, r = lib.SystemGetDriverVersion(); r != nvml.SUCCESS {
		return m, fmt.Errorf("reading the driver version: %w", r)
	}
	if v, r := lib.SystemGetCudaDriverVersion(); r == nvml.SUCCESS {
		m.cuda = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	n, r := lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return m, fmt.Errorf("counting GPUs: %w", r)
	}
	for i := range n {
		d, r := lib.DeviceGetHandleByIndex(i)
		if r == nvml.ERROR_GPU_IS_LOST {
			m.gpus = append(m.gpus, gpu{index: i, lost: true})
			continue
		}
		if r != nvml.SUCCESS {
			return m, fmt.Errorf("opening GPU %d: %w", i, r)
		}
		m.gpus = append(m.gpus, readGPU(i, d))
	}
	return m, nil
}

// maybe is a value that a GPU may lack.
func maybe[T any](v T, r nvml.Return) *T {
	if r != nvml.SUCCESS {
		return nil
	}
	return &v
}

// word converts the enumerations of NVML.
func word[T ~int32 | ~uint32](v T, r nvml.Return) *uint32 { return maybe(uint32(v), r) }

// readGPU asks one GPU.
func readGPU(i int, d nvml.Device) gpu {
	g := gpu{index: i}
	g.name, _ = d.GetName()
	g.uuid, _ = d.GetUUID()
	g.serial, _ = d.GetSerial()
	g.vbios, _ = d.GetVbiosVersion()
	if p, r := d.GetPciInfo(); r == nvml.SUCCESS {
		g.bus = text(p.BusId[:])
		g.deviceID = &p.PciDeviceId
	}
	if v, r := d.GetMemoryInfo_v2(); r == nvml.SUCCESS {
		g.total, g.used, g.free, g.reserved = v.Total, v.Used, v.Free, v.Reserved
	}
	g.temperature = maybe(d.GetTemperature(nvml.TEMPERATURE_GPU))
	g.power, g.limit = maybe(d.GetPowerUsage()), maybe(d.GetEnforcedPowerLimit())
	if u, r := d.GetUtilizationRates(); r == nvml.SUCCESS {
		g.utilisation, g.memoryUtilisation = &u.Gpu, &u.Memory
	}
	g.sm, g.smMax = maybe(d.GetClockInfo(nvml.CLOCK_SM)), maybe(d.GetMaxClockInfo(nvml.CLOCK_SM))
	g.memory, g.memoryMax = maybe(d.GetClockInfo(nvml.CLOCK_MEM)), maybe(d.GetMaxClockInfo(nvml.CLOCK_MEM))
	g.pstate = word(d.GetPerformanceState())
	g.persistence = word(d.GetPersistenceMode())
	g.computeMode = word(d.GetComputeMode())
	g.display = word(d.GetDisplayActive())
	if current, _, r := d.GetEccMode(); r == nvml.SUCCESS {
		g.eccMode = word(current, r)
	}
	g.eccUncorrected = maybe(d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC))
	if current, _, r := d.GetMigMode(); r == nvml.SUCCESS {
		g.migMode = word(uint32(current), r)
	}
	g.partitions = readPartitions(d)
	g.fan = maybe(d.GetFanSpeed())
	if v, r := d.GetCurrPcieLinkGeneration(); r == nvml.SUCCESS {
		g.generation = word(uint32(v), r)
	}
	if v, r := d.GetCurrPcieLinkWidth(); r == nvml.SUCCESS {
		g.width = word(uint32(v), r)
	}
	if major, minor, r := d.GetCudaComputeCapability(); r == nvml.SUCCESS {
		g.capability = fmt.Sprintf("%d.%d", major, minor)
	}
	field := []nvml.FieldValue{{FieldId: nvml.FI_DEV_MEMORY_TEMP}}
	if r := d.GetFieldValues(field); r == nvml.SUCCESS && nvml.Return(field[0].NvmlReturn) == nvml.SUCCESS {
		v := uint32(field[0].Value[0])
		g.memoryTemperature = &v
	}
	g.processes, _ = d.GetComputeRunningProcesses()
	return g
}

// readPartitions asks for the MIG devices of a GPU. A partition's size is the end of
// its name: NVIDIA H100 80GB HBM3 MIG 1g.10gb.
func readPartitions(d nvml.Device) []partition {
	var out []partition
	n, _ := d.GetMaxMigDeviceCount()
	for i := range n {
		m, r := d.GetMigDeviceHandleByIndex(i)
		if r != nvml.SUCCESS {
			continue
		}
		name, _ := m.GetName()
		uuid, _ := m.GetUUID()
		_, profile, _ := strings.Cut(name, " MIG ")
		out = append(out, partition{profile: profile, uuid: uuid})
	}
	return out
}

// text is the string in a C array.
func text[T ~int8 | ~uint8](c []T) string {
	var b strings.Builder
	for _, x := range c {
		if x == 0 {
			break
		}
		b.WriteByte(byte(x))
	}
	return b.String()
}
