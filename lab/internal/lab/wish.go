package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DefaultDriverVersion is the driver of nodes that have it in their OS image.
const DefaultDriverVersion = "550.163.01"

// Wish is what a person asks a lab's nodes to be, by per-node lists: the last
// entry repeats.
type Wish struct {
	Nodes int
	// GPUs entries are "<count>x<machine>", "<machine>" (one) or "none".
	GPUs []string
	// Drivers entries are "host" or "none", Runtimes "containerd-2" or "containerd-1.6".
	Drivers, Runtimes []string
	// DriverVersion is for "host" drivers.
	DriverVersion string
	// Labels are node labels, of every node of the wish.
	Labels map[string]string
}

// Expand turns a wish into nodes without names and indexes. machines are the
// known machine models. Errors name the entry and list what would be right.
func (w Wish) Expand(machines []string) ([]Node, error) {
	if w.Nodes < 0 {
		return nil, fmt.Errorf("--nodes %d: a lab has no negative number of nodes", w.Nodes)
	}
	for _, l := range []struct {
		flag string
		list []string
	}{{"--gpus", w.GPUs}, {"--driver", w.Drivers}, {"--runtime", w.Runtimes}} {
		if len(l.list) > max(w.Nodes, 1) {
			return nil, fmt.Errorf("%s names %d nodes (%s), but --nodes is %d", l.flag, len(l.list), strings.Join(l.list, ","), w.Nodes)
		}
	}
	out := make([]Node, 0, w.Nodes)
	for i := range w.Nodes {
		n := Node{
			Driver:        pick(w.Drivers, i, DriverHost),
			Runtime:       pick(w.Runtimes, i, RuntimeContainerd2),
			DriverVersion: w.DriverVersion,
			Labels:        w.Labels,
		}
		var err error
		if n.GPUs, n.Machine, err = parseGPUs(pick(w.GPUs, i, "none"), machines); err != nil {
			return nil, err
		}
		if err := oneOf("--driver", n.Driver, DriverHost, DriverNone); err != nil {
			return nil, err
		}
		if err := oneOf("--runtime", n.Runtime, RuntimeContainerd2, RuntimeContainerd16, RuntimeK3s); err != nil {
			return nil, err
		}
		if n.GPUs == 0 {
			n.Driver = DriverNone // A driver without its device does not load.
		}
		if n.Driver == DriverNone {
			n.DriverVersion = ""
		}
		out = append(out, n)
	}
	return out, nil
}

// maxGPUs is what the biggest servers carry.
const maxGPUs = 16

// parseGPUs reads one entry of --gpus.
func parseGPUs(s string, machines []string) (count int, machine string, err error) {
	if s == "none" {
		return 0, "", nil
	}
	count, machine = 1, s
	if number, rest, ok := strings.Cut(s, "x"); ok {
		if n, err := strconv.Atoi(number); err == nil {
			count, machine = n, rest
		}
	}
	if count < 1 || count > maxGPUs {
		return 0, "", fmt.Errorf("--gpus %q: a machine has 1 to %d GPUs (\"none\" for a machine without)", s, maxGPUs)
	}
	for _, m := range machines {
		if strings.EqualFold(m, machine) {
			return count, m, nil
		}
	}
	return 0, "", fmt.Errorf("--gpus %q: machine model %q is not known: there are %s, and none", s, machine, strings.Join(machines, ", "))
}

// pick is the entry for node i of a list whose last entry repeats.
func pick(list []string, i int, fallback string) string {
	if len(list) == 0 {
		return fallback
	}
	return list[min(i, len(list)-1)]
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s %q: must be one of %s", flag, value, strings.Join(allowed, ", "))
}
