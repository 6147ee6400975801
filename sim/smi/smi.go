package smi

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Exit statuses of nvidia-smi that scripts look at.
const (
	exitOK         = 0
	exitBadUsage   = 2
	exitNoDevices  = 6
	exitNoDriver   = 9
	exitUnexpected = 255
)

// noDriver is the first line that people search for when the driver is away.
const noDriver = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."

const usageText = `NVIDIA System Management Interface of the simulated driver

usage: nvidia-smi [-i ID]...
       nvidia-smi -L
       nvidia-smi -q
       nvidia-smi --query-gpu=FIELD,... --format=csv[,noheader][,nounits]
       nvidia-smi --help-query-gpu | --version | -h
ID is an index, a UUID or a PCI bus id.
`

// call is one parsed command line.
type call struct {
	list, full, version, help, helpQuery bool
	query, format                        string
	ids                                  []string
}

// parse reads the command line.
func parse(args []string) (call, error) {
	var c call
	for i := 0; i < len(args); i++ {
		a := args[i]
		value := func() (string, error) {
			if _, v, ok := strings.Cut(a, "="); ok {
				return v, nil
			}
			if i+1 == len(args) {
				return "", fmt.Errorf("option %q needs a value", a)
			}
			i++
			return args[i], nil
		}
		var err error
		switch name, _, _ := strings.Cut(a, "="); name {
		case "-L", "--list-gpus":
			c.list = true
		case "-q", "--query":
			c.full = true
		case "-h", "--help":
			c.help = true
		case "--version":
			c.version = true
		case "--help-query-gpu":
			c.helpQuery = true
		case "--query-gpu":
			c.query, err = value()
		case "--format":
			c.format, err = value()
		case "-i", "--id":
			var ids string
			ids, err = value()
			c.ids = append(c.ids, strings.Split(ids, ",")...)
		default:
			err = fmt.Errorf("invalid option %q; see -h", a)
		}
		if err != nil {
			return c, err
		}
	}
	if c.query != "" && !strings.HasPrefix(c.format, "csv") {
		return c, fmt.Errorf("--query-gpu needs --format=csv")
	}
	return c, nil
}

// Run does one call and returns its exit status. NVML is initialised and shut
// down by Run.
func Run(args []string, lib nvml.Interface, now time.Time, out io.Writer) int {
	c, err := parse(args)
	if err != nil {
		fmt.Fprintln(out, err)
		return exitBadUsage
	}
	switch {
	case c.help:
		fmt.Fprint(out, usageText)
		return exitOK
	case c.helpQuery:
		fmt.Fprintln(out, strings.Join(fieldNames(), "\n"))
		return exitOK
	}
	if r := lib.Init(); r != nvml.SUCCESS {
		fmt.Fprintf(out, "%s %s.\n\n", noDriver, reasonOf(r))
		return exitNoDriver
	}
	defer func() { _ = lib.Shutdown() }() // the process ends
	m, err := read(lib)
	if err != nil {
		fmt.Fprintln(out, err)
		return exitUnexpected
	}
	if m.gpus, err = choose(m.gpus, c.ids); err != nil {
		fmt.Fprintln(out, err)
		return exitNoDevices
	}
	return show(c, m, now, out)
}

// reasonOf says why NVML did not start.
func reasonOf(r nvml.Return) string {
	switch r { //nolint:exhaustive // the others speak for themselves
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "Make sure that the latest NVIDIA driver is installed and running"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "Driver/library version mismatch"
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "The library libnvidia-ml.so.1 was not found"
	}
	return r.Error()
}

// choose keeps the GPUs that were asked for.
func choose(gpus []gpu, ids []string) ([]gpu, error) {
	if len(ids) == 0 {
		return gpus, nil
	}
	var chosen []gpu
	for _, id := range ids {
		found := false
		for _, g := range gpus {
			if fmt.Sprint(g.index) == id || strings.EqualFold(g.uuid, id) || strings.HasSuffix(strings.ToLower(g.bus), strings.ToLower(id)) && strings.Contains(id, ":") {
				chosen, found = append(chosen, g), true
			}
		}
		if !found {
			return nil, fmt.Errorf("No devices were found with id %q", id) //nolint:staticcheck // scripts match this line
		}
	}
	return chosen, nil
}

// show prints what was asked for.
func show(c call, m board, now time.Time, out io.Writer) int {
	if len(m.gpus) == 0 {
		fmt.Fprintln(out, "No devices were found")
		if c.list {
			return exitOK
		}
		return exitNoDevices
	}
	switch {
	case c.version:
		fmt.Fprintf(out, "NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\nCUDA Version        : %s\n",
			m.driver, strings.Join(strings.SplitN(m.driver, ".", 3)[:2], "."), m.driver, m.cuda)
	case c.list:
		for _, g := range m.gpus {
			if g.lost {
				fmt.Fprintf(out, "Unable to determine the device handle for gpu %d: GPU is lost.  Reboot the system to recover this GPU\n", g.index)
				continue
			}
			fmt.Fprintf(out, "GPU %d: %s (UUID: %s)\n", g.index, g.name, g.uuid)
			for i, p := range g.partitions {
				fmt.Fprintf(out, "  MIG %-12s Device %2d: (UUID: %s)\n", p.profile, i, p.uuid)
			}
		}
	case c.query != "":
		return query(c, m, now, out)
	case c.full:
		full(m, now, out)
	default:
		table(m, now, out)
	}
	return exitOK
}
