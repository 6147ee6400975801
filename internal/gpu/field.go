package gpu

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// reader reads one field of a GPU. It returns false when this GPU cannot tell.
type reader func(s *session, h nvml.Device) (float64, bool)

// readers is the table of numeric fields, by the name under which the ecosystem
// knows them. Profiling ratios of engines are not in NVML's plain interface and
// therefore not in the table.
func readers() map[string]reader {
	return map[string]reader{
		// Clocks, MHz.
		"DCGM_FI_DEV_SM_CLOCK":     clock(nvml.CLOCK_SM),
		"DCGM_FI_DEV_MEM_CLOCK":    clock(nvml.CLOCK_MEM),
		"DCGM_FI_DEV_VIDEO_CLOCK":  clock(nvml.CLOCK_VIDEO),
		"DCGM_FI_DEV_MAX_SM_CLOCK": maxClock(nvml.CLOCK_SM),
		// Temperatures, degrees Celsius.
		"DCGM_FI_DEV_GPU_TEMP":    plain(func(h nvml.Device) (uint32, nvml.Return) { return h.GetTemperature(nvml.TEMPERATURE_GPU) }),
		"DCGM_FI_DEV_MEMORY_TEMP": field(nvml.FI_DEV_MEMORY_TEMP),
		// Power in W, energy in mJ.
		"DCGM_FI_DEV_POWER_USAGE":              scaled(1e-3, nvml.Device.GetPowerUsage),
		"DCGM_FI_DEV_POWER_MGMT_LIMIT":         scaled(1e-3, nvml.Device.GetPowerManagementLimit),
		"DCGM_FI_DEV_ENFORCED_POWER_LIMIT":     scaled(1e-3, nvml.Device.GetEnforcedPowerLimit),
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": plain(nvml.Device.GetTotalEnergyConsumption),
		// PCIe. Throughput is in KB/s in NVML.
		"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": plain(nvml.Device.GetPcieReplayCounter),
		"DCGM_FI_PROF_PCIE_TX_BYTES":      scaled(1000, pcie(nvml.PCIE_UTIL_TX_BYTES)),
		"DCGM_FI_PROF_PCIE_RX_BYTES":      scaled(1000, pcie(nvml.PCIE_UTIL_RX_BYTES)),
		// Utilisation, percent.
		"DCGM_FI_DEV_GPU_UTIL":      utilisation(func(u nvml.Utilization) uint32 { return u.Gpu }),
		"DCGM_FI_DEV_MEM_COPY_UTIL": utilisation(func(u nvml.Utilization) uint32 { return u.Memory }),
		"DCGM_FI_DEV_ENC_UTIL":      engine(nvml.Device.GetEncoderUtilization),
		"DCGM_FI_DEV_DEC_UTIL":      engine(nvml.Device.GetDecoderUtilization),
		// Frame buffer, MiB.
		"DCGM_FI_DEV_FB_TOTAL":    memory(func(m nvml.Memory_v2) uint64 { return m.Total }),
		"DCGM_FI_DEV_FB_FREE":     memory(func(m nvml.Memory_v2) uint64 { return m.Free }),
		"DCGM_FI_DEV_FB_USED":     memory(func(m nvml.Memory_v2) uint64 { return m.Used }),
		"DCGM_FI_DEV_FB_RESERVED": memory(func(m nvml.Memory_v2) uint64 { return m.Reserved }),
		// Errors.
		"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL":           ecc(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC),
		"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":           ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC),
		"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL":           ecc(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC),
		"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL":           ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC),
		"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS":   remapped(func(c, _ int, _ bool) int { return c }),
		"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": remapped(func(_, u int, _ bool) int { return u }),
		"DCGM_FI_DEV_ROW_REMAP_FAILURE":           remapped(func(_, _ int, failed bool) int { return number(failed) }),
		"DCGM_FI_DEV_RETIRED_SBE":                 retired(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
		"DCGM_FI_DEV_RETIRED_DBE":                 retired(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
		"DCGM_FI_DEV_RETIRED_PENDING":             plain(nvml.Device.GetRetiredPagesPendingStatus),
		// Times, ns, in which the clocks were held down.
		"DCGM_FI_DEV_POWER_VIOLATION":       violation(nvml.PERF_POLICY_POWER),
		"DCGM_FI_DEV_THERMAL_VIOLATION":     violation(nvml.PERF_POLICY_THERMAL),
		"DCGM_FI_DEV_SYNC_BOOST_VIOLATION":  violation(nvml.PERF_POLICY_SYNC_BOOST),
		"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION": violation(nvml.PERF_POLICY_BOARD_LIMIT),
		"DCGM_FI_DEV_LOW_UTIL_VIOLATION":    violation(nvml.PERF_POLICY_LOW_UTILIZATION),
		"DCGM_FI_DEV_RELIABILITY_VIOLATION": violation(nvml.PERF_POLICY_RELIABILITY),
		// State.
		"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": plain(nvml.Device.GetCurrentClocksEventReasons),
		"DCGM_FI_DEV_PSTATE":                 plain(nvml.Device.GetPerformanceState),
		"DCGM_FI_DEV_FAN_SPEED":              plain(nvml.Device.GetFanSpeed),
		// NVLink, the sum over both directions of all links, in KiB as NVML counts.
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": nvlink,
	}
}

// words is the table of fields that are words.
func words() map[string]func(*session, nvml.Device) (string, bool) {
	return map[string]func(*session, nvml.Device) (string, bool){
		"DCGM_FI_DRIVER_VERSION": func(s *session, _ nvml.Device) (string, bool) { return s.driver, true },
		"DCGM_FI_NVML_VERSION": func(s *session, _ nvml.Device) (string, bool) {
			v, ret := s.lib.SystemGetNVMLVersion()
			return v, ret == nvml.SUCCESS
		},
		"DCGM_FI_DEV_SERIAL":            word1(nvml.Device.GetSerial),
		"DCGM_FI_DEV_VBIOS_VERSION":     word1(nvml.Device.GetVbiosVersion),
		"DCGM_FI_DEV_NAME":              word1(nvml.Device.GetName),
		"DCGM_FI_DEV_UUID":              word1(nvml.Device.GetUUID),
		"DCGM_FI_DEV_INFOROM_IMAGE_VER": word1(nvml.Device.GetInforomImageVersion),
	}
}

// Fields returns the names of all fields that can be read, in order.
func Fields() []string {
	var out []string
	for f := range readers() {
		out = append(out, f)
	}
	for f := range words() {
		out = append(out, f)
	}
	slices.Sort(out)
	return out
}

// integer is what NVML's plain numbers are made of.
type integer interface {
	~int | ~int32 | ~uint32 | ~uint64
}

func plain[T integer](get func(nvml.Device) (T, nvml.Return)) reader { return scaled(1, get) }

func scaled[T integer](factor float64, get func(nvml.Device) (T, nvml.Return)) reader {
	return func(_ *session, h nvml.Device) (float64, bool) {
		v, ret := get(h)
		return float64(v) * factor, ret == nvml.SUCCESS
	}
}

func word1(get func(nvml.Device) (string, nvml.Return)) func(*session, nvml.Device) (string, bool) {
	return func(_ *session, h nvml.Device) (string, bool) {
		v, ret := get(h)
		return v, ret == nvml.SUCCESS
	}
}

func clock(which nvml.ClockType) reader {
	return plain(func(h nvml.Device) (uint32, nvml.Return) { return h.GetClockInfo(which) })
}

func maxClock(which nvml.ClockType) reader {
	return plain(func(h nvml.Device) (uint32, nvml.Return) { return h.GetMaxClockInfo(which) })
}

func pcie(which nvml.PcieUtilCounter) func(nvml.Device) (uint32, nvml.Return) {
	return func(h nvml.Device) (uint32, nvml.Return) { return h.GetPcieThroughput(which) }
}

func utilisation(part func(nvml.Utilization) uint32) reader {
	return plain(func(h nvml.Device) (uint32, nvml.Return) {
		u, ret := h.GetUtilizationRates()
		return part(u), ret
	})
}

func engine(get func(nvml.Device) (uint32, uint32, nvml.Return)) reader {
	return plain(func(h nvml.Device) (uint32, nvml.Return) {
		v, _, ret := get(h)
		return v, ret
	})
}

// memory reads a part of the frame buffer in MiB. Drivers before 510 do not tell
// what they reserve: there it counts as used, and nothing as reserved.
func memory(part func(nvml.Memory_v2) uint64) reader {
	return func(s *session, h nvml.Device) (float64, bool) {
		var m nvml.Memory_v2
		var ret nvml.Return
		if s.hasMemoryV2 {
			m, ret = h.GetMemoryInfo_v2()
		} else {
			var old nvml.Memory
			old, ret = h.GetMemoryInfo()
			m.Total, m.Free, m.Used = old.Total, old.Free, old.Used
		}
		return float64(part(m) >> 20), ret == nvml.SUCCESS
	}
}

func ecc(kind nvml.MemoryErrorType, counter nvml.EccCounterType) reader {
	return plain(func(h nvml.Device) (uint64, nvml.Return) { return h.GetTotalEccErrors(kind, counter) })
}

func remapped(part func(corrected, uncorrected int, failed bool) int) reader {
	return plain(func(h nvml.Device) (int, nvml.Return) {
		c, u, _, failed, ret := h.GetRemappedRows()
		return part(c, u, failed), ret
	})
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func retired(cause nvml.PageRetirementCause) reader {
	return plain(func(h nvml.Device) (int, nvml.Return) {
		pages, ret := h.GetRetiredPages(cause)
		return len(pages), ret
	})
}

func violation(policy nvml.PerfPolicyType) reader {
	return plain(func(h nvml.Device) (uint64, nvml.Return) {
		v, ret := h.GetViolationStatus(policy)
		return v.ViolationTime, ret
	})
}

// allLinks asks for the sum over all links of a GPU.
const allLinks = math.MaxUint32

func nvlink(_ *session, h nvml.Device) (float64, bool) {
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: allLinks},
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: allLinks},
	}
	if h.GetFieldValues(values) != nvml.SUCCESS {
		return 0, false
	}
	tx, txOK := decode(values[0])
	rx, rxOK := decode(values[1])
	return tx + rx, txOK && rxOK
}

func field(id uint32) reader {
	return func(_ *session, h nvml.Device) (float64, bool) { return fieldValue(h, id) }
}

func fieldValue(h nvml.Device, id uint32) (float64, bool) {
	values := []nvml.FieldValue{{FieldId: id}}
	if h.GetFieldValues(values) != nvml.SUCCESS {
		return 0, false
	}
	return decode(values[0])
}

// decode reads a field's value by the type that it says it has.
func decode(f nvml.FieldValue) (float64, bool) {
	if nvml.Return(f.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	b := f.Value[:]
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(binary.NativeEndian.Uint64(b)), true
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(binary.NativeEndian.Uint32(b)), true
	case nvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(binary.NativeEndian.Uint32(b))), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(binary.NativeEndian.Uint16(b)), true
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(binary.NativeEndian.Uint64(b))), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return float64(binary.NativeEndian.Uint64(b)), true
	case nvml.VALUE_TYPE_COUNT: // no type, but the number of them
	}
	return 0, false
}
