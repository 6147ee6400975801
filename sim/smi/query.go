package smi

import (
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"
)

// field is one column of --query-gpu: its unit, and how it is answered.
type field struct {
	unit  string
	value func(m board, g gpu, now time.Time) string
}

// number prints a value that a GPU may lack.
func number[T any](v *T, format string) string {
	if v == nil {
		return notAvailable
	}
	return fmt.Sprintf(format, *v)
}

// watts prints milliwatts as watts.
func watts(v *uint32) string {
	if v == nil {
		return notAvailable
	}
	return strconv.FormatFloat(float64(*v)/1000, 'f', 2, 64)
}

// word prints a mode by its number.
func mode(v *uint32, words ...string) string {
	if v == nil || int(*v) >= len(words) {
		return notAvailable
	}
	return words[*v]
}

// mib prints bytes as MiB.
func mib(v uint64) string { return strconv.FormatUint(v>>20, 10) }

// or prints a text that a GPU may lack.
func or(s string) string {
	if s == "" {
		return notAvailable
	}
	return s
}

// fields is the table of what can be asked for.
func fields() map[string]field {
	f := map[string]field{
		"timestamp":                             {"", func(_ board, _ gpu, now time.Time) string { return now.Format("2006/01/02 15:04:05.000") }},
		"driver_version":                        {"", func(m board, _ gpu, _ time.Time) string { return m.driver }},
		"count":                                 {"", func(m board, _ gpu, _ time.Time) string { return strconv.Itoa(len(m.gpus)) }},
		"index":                                 {"", func(_ board, g gpu, _ time.Time) string { return strconv.Itoa(g.index) }},
		"name":                                  {"", func(_ board, g gpu, _ time.Time) string { return or(g.name) }},
		"uuid":                                  {"", func(_ board, g gpu, _ time.Time) string { return or(g.uuid) }},
		"serial":                                {"", func(_ board, g gpu, _ time.Time) string { return or(g.serial) }},
		"pci.bus_id":                            {"", func(_ board, g gpu, _ time.Time) string { return or(g.bus) }},
		"pci.device_id":                         {"", func(_ board, g gpu, _ time.Time) string { return number(g.deviceID, "0x%08X") }},
		"vbios_version":                         {"", func(_ board, g gpu, _ time.Time) string { return or(g.vbios) }},
		"compute_cap":                           {"", func(_ board, g gpu, _ time.Time) string { return or(g.capability) }},
		"pstate":                                {"", func(_ board, g gpu, _ time.Time) string { return number(g.pstate, "P%d") }},
		"persistence_mode":                      {"", func(_ board, g gpu, _ time.Time) string { return mode(g.persistence, "Disabled", "Enabled") }},
		"mig.mode.current":                      {"", func(_ board, g gpu, _ time.Time) string { return mode(g.migMode, "Disabled", "Enabled") }},
		"ecc.mode.current":                      {"", func(_ board, g gpu, _ time.Time) string { return mode(g.eccMode, "Disabled", "Enabled") }},
		"ecc.errors.uncorrected.volatile.total": {"", func(_ board, g gpu, _ time.Time) string { return number(g.eccUncorrected, "%d") }},
		"memory.total":                          {"MiB", func(_ board, g gpu, _ time.Time) string { return mib(g.total) }},
		"memory.used":                           {"MiB", func(_ board, g gpu, _ time.Time) string { return mib(g.used) }},
		"memory.free":                           {"MiB", func(_ board, g gpu, _ time.Time) string { return mib(g.free) }},
		"memory.reserved":                       {"MiB", func(_ board, g gpu, _ time.Time) string { return mib(g.reserved) }},
		"temperature.gpu":                       {"", func(_ board, g gpu, _ time.Time) string { return number(g.temperature, "%d") }},
		"temperature.memory":                    {"", func(_ board, g gpu, _ time.Time) string { return number(g.memoryTemperature, "%d") }},
		"power.draw":                            {"W", func(_ board, g gpu, _ time.Time) string { return watts(g.power) }},
		"power.limit":                           {"W", func(_ board, g gpu, _ time.Time) string { return watts(g.limit) }},
		"utilization.gpu":                       {"%", func(_ board, g gpu, _ time.Time) string { return number(g.utilisation, "%d") }},
		"utilization.memory":                    {"%", func(_ board, g gpu, _ time.Time) string { return number(g.memoryUtilisation, "%d") }},
		"clocks.current.sm":                     {"MHz", func(_ board, g gpu, _ time.Time) string { return number(g.sm, "%d") }},
		"clocks.current.memory":                 {"MHz", func(_ board, g gpu, _ time.Time) string { return number(g.memory, "%d") }},
		"clocks.max.sm":                         {"MHz", func(_ board, g gpu, _ time.Time) string { return number(g.smMax, "%d") }},
		"clocks.max.memory":                     {"MHz", func(_ board, g gpu, _ time.Time) string { return number(g.memoryMax, "%d") }},
		"fan.speed":                             {"%", func(_ board, g gpu, _ time.Time) string { return number(g.fan, "%d") }},
		"pcie.link.gen.current":                 {"", func(_ board, g gpu, _ time.Time) string { return number(g.generation, "%d") }},
		"pcie.link.width.current":               {"", func(_ board, g gpu, _ time.Time) string { return number(g.width, "%d") }},
	}
	for alias, of := range map[string]string{
		"gpu_name": "name", "gpu_uuid": "uuid", "gpu_serial": "serial", "gpu_bus_id": "pci.bus_id",
		"clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory",
	} {
		f[alias] = f[of]
	}
	return f
}

// fieldNames are the names of all fields in order.
func fieldNames() []string {
	var names []string
	for n := range fields() {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// query prints the CSV that --query-gpu asks for.
func query(c call, m board, now time.Time, out io.Writer) int {
	known := fields()
	header, units := true, true
	for f := range strings.SplitSeq(c.format, ",") {
		switch f {
		case "noheader":
			header = false
		case "nounits":
			units = false
		}
	}
	columns := strings.Split(c.query, ",")
	var titles []string
	for i, name := range columns {
		columns[i] = strings.TrimSpace(name)
		f, ok := known[columns[i]]
		if !ok {
			fmt.Fprintf(out, "Field \"%s\" is not a valid field to query.\n\n", columns[i])
			return exitBadUsage
		}
		title := columns[i]
		if f.unit != "" && units {
			title += " [" + f.unit + "]"
		}
		titles = append(titles, title)
	}
	if header {
		fmt.Fprintln(out, strings.Join(titles, ", "))
	}
	for _, g := range m.gpus {
		var values []string
		for _, name := range columns {
			values = append(values, cell(known[name], m, g, now, units))
		}
		fmt.Fprintln(out, strings.Join(values, ", "))
	}
	return exitOK
}

// cell is one value with its unit.
func cell(f field, m board, g gpu, now time.Time, units bool) string {
	if g.lost {
		return "[GPU is lost]"
	}
	v := f.value(m, g, now)
	if units && f.unit != "" && v != notAvailable {
		v += " " + f.unit
	}
	return v
}
