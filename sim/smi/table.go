package smi

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	rule   = "+-----------------------------------------------------------------------------------------+"
	bar    = "|-----------------------------------------+------------------------+----------------------+"
	double = "|=========================================+========================+======================|"
	closed = "+-----------------------------------------+------------------------+----------------------+"
)

// table prints the screen that nvidia-smi without options shows.
func table(m board, now time.Time, out io.Writer) {
	fmt.Fprintln(out, now.Format("Mon Jan _2 15:04:05 2006"))
	fmt.Fprintln(out, rule)
	fmt.Fprintf(out, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", m.driver, m.driver, m.cuda)
	fmt.Fprintln(out, bar)
	fmt.Fprintln(out, "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |")
	fmt.Fprintln(out, "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |")
	fmt.Fprintln(out, "|                                         |                        |               MIG M. |")
	fmt.Fprintln(out, double)
	for _, g := range m.gpus {
		row(g, out)
		fmt.Fprintln(out, closed)
	}
	fmt.Fprintf(out, "\n%s\n| %-87s |\n", rule, "Processes:")
	fmt.Fprintf(out, "| %-87s |\n", " GPU   GI   CI        PID   Type   Process name                              GPU Memory")
	fmt.Fprintf(out, "| %-87s |\n", "       ID   ID                                                               Usage")
	fmt.Fprintf(out, "|%s|\n", strings.Repeat("=", len(rule)-2))
	none := true
	for _, g := range m.gpus {
		for _, p := range g.processes {
			none = false
			fmt.Fprintf(out, "| %-87s |\n", fmt.Sprintf("%4d   N/A  N/A %10d      C   %-36s %6sMiB", g.index, p.Pid, "-", mib(p.UsedGpuMemory)))
		}
	}
	if none {
		fmt.Fprintf(out, "| %-87s |\n", " No running processes found")
	}
	fmt.Fprintln(out, rule)
}

// bare is a value of the table, where N/A stands without brackets.
func bare(s string) string { return strings.Trim(s, "[]") }

// row prints the three lines of one GPU.
func row(g gpu, out io.Writer) {
	if g.lost {
		fmt.Fprintf(out, "| %3d  %-34s | %-22s | %20s |\n", g.index, "ERR! GPU is lost", "", "")
		return
	}
	fmt.Fprintf(out, "| %3d  %-25s %8s | %16s %5s | %20s |\n", g.index, g.name,
		mode(g.persistence, "Off", "On"), g.bus, mode(g.display, "Off", "On"), bare(number(g.eccUncorrected, "%d")))
	power := fmt.Sprintf("%s / %s", short(g.power), short(g.limit))
	memory := fmt.Sprintf("%sMiB / %sMiB", mib(g.used), mib(g.total))
	fmt.Fprintf(out, "| %-4s %4s %6s %22s | %22s | %8s %11s |\n", bare(number(g.fan, "%d%%")), bare(number(g.temperature, "%dC")),
		bare(number(g.pstate, "P%d")), power, memory, bare(number(g.utilisation, "%d%%")), mode(g.computeMode, "Default", "E. Thread", "Prohibited", "E. Process"))
	fmt.Fprintf(out, "| %39s | %22s | %20s |\n", "", "", bare(mode(g.migMode, "Disabled", "Enabled")))
}

// short prints whole watts.
func short(mw *uint32) string {
	if mw == nil {
		return "N/A"
	}
	return fmt.Sprintf("%dW", *mw/1000)
}

// full prints the part of `nvidia-smi -q` that people read.
func full(m board, now time.Time, out io.Writer) {
	fmt.Fprintf(out, "\n==============NVSMI LOG==============\n\nTimestamp                                 : %s\nDriver Version                            : %s\nCUDA Version                              : %s\n\nAttached GPUs                             : %d\n",
		now.Format("Mon Jan _2 15:04:05 2006"), m.driver, m.cuda, len(m.gpus))
	line := func(depth int, name, value string) {
		fmt.Fprintf(out, "%-*s: %s\n", 42, strings.Repeat("    ", depth)+name, value)
	}
	for _, g := range m.gpus {
		fmt.Fprintf(out, "GPU %s\n", g.bus)
		if g.lost {
			line(1, "State", "GPU is lost")
			continue
		}
		line(1, "Product Name", g.name)
		line(1, "Persistence Mode", mode(g.persistence, "Disabled", "Enabled"))
		line(1, "Serial Number", or(g.serial))
		line(1, "GPU UUID", g.uuid)
		line(1, "VBIOS Version", or(g.vbios))
		fmt.Fprintln(out, "    FB Memory Usage")
		line(2, "Total", mib(g.total)+" MiB")
		line(2, "Reserved", mib(g.reserved)+" MiB")
		line(2, "Used", mib(g.used)+" MiB")
		line(2, "Free", mib(g.free)+" MiB")
		fmt.Fprintln(out, "    Utilization")
		line(2, "Gpu", number(g.utilisation, "%d %%"))
		line(2, "Memory", number(g.memoryUtilisation, "%d %%"))
		fmt.Fprintln(out, "    Temperature")
		line(2, "GPU Current Temp", number(g.temperature, "%d C"))
		line(2, "Memory Current Temp", number(g.memoryTemperature, "%d C"))
	}
}
