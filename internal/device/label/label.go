// Package label derives node labels from a node's GPUs, under the names and in the
// formats that the ecosystem selects nodes by. Pure: values in, labels out.
package label

import (
	"fmt"
	"strconv"
	"strings"

	"gpu-operator/internal/device"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// maxValue is the length that Kubernetes allows for a label's value.
const maxValue = 63

// Input is what labels are made of.
type Input struct {
	Inventory facts.Inventory
	// Strategy is how MIG partitions are offered.
	Strategy device.Strategy
	// Machine is the machine's product name; empty: unknown.
	Machine string
	// Timestamp is when the labels were derived, in seconds since 1970; 0: no such label.
	Timestamp int64
}

// Of returns the labels. GPUs that never said who they are count for nothing; one
// that answered before and does not now keeps its labels: it is still in its slot.
// Without any GPU there are no labels.
func Of(in Input) map[string]string {
	var devices []facts.Device
	for _, d := range in.Inventory.Devices {
		if d.UUID != "" {
			devices = append(devices, d)
		}
	}
	if len(devices) == 0 {
		return map[string]string{}
	}
	out := map[string]string{}
	set := func(key, value string) {
		if v := Value(value); v != "" {
			out[names.Group+"/"+key] = v
		}
	}
	node(in, devices, set)
	versions(in.Inventory, set)
	whole, parts := offered(in, devices)
	gpus(in, whole, parts, set)
	partitions(in, parts, set)
	return out
}

// node says what is true of the node as a whole.
func node(in Input, devices []facts.Device, set func(key, value string)) {
	if in.Timestamp != 0 {
		set("gfd.timestamp", strconv.FormatInt(in.Timestamp, 10))
	}
	machine := in.Machine
	if Value(machine) == "" {
		machine = "unknown"
	}
	set("gpu.machine", machine)
	mig := false
	for _, d := range devices {
		mig = mig || d.MIGCapable
	}
	set("mig.capable", strconv.FormatBool(mig))
	// Sharing by MPS is not offered by this device plugin.
	set("mps.capable", "false")
	if in.Strategy != device.MIGNone {
		set("mig.strategy", string(in.Strategy))
	}
	set("vgpu.present", "false")
	set("gpu.mode", mode(devices))
}

// mode is what the GPUs are by their PCI class.
func mode(devices []facts.Device) string {
	mode := ""
	for _, d := range devices {
		m := "unknown"
		switch {
		case strings.HasPrefix(d.Class, "0302"):
			m = "compute"
		case strings.HasPrefix(d.Class, "0300"):
			m = "graphics"
		}
		if mode != "" && m != mode {
			return "unknown"
		}
		mode = m
	}
	return mode
}

// versions says what the driver is.
func versions(inv facts.Inventory, set func(key, value string)) {
	set("cuda.driver-version.full", inv.DriverVersion)
	parts := strings.SplitN(inv.DriverVersion, ".", 3)
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	for i, keys := range [][2]string{{"major", "major"}, {"minor", "minor"}, {"revision", "rev"}} {
		set("cuda.driver-version."+keys[0], parts[i])
		set("cuda.driver."+keys[1], parts[i])
	}
	if inv.CUDAVersion > 0 {
		major, minor := strconv.Itoa(inv.CUDAVersion/1000), strconv.Itoa(inv.CUDAVersion%1000/10)
		set("cuda.runtime-version.full", major+"."+minor)
		for _, key := range []string{"cuda.runtime-version.", "cuda.runtime."} {
			set(key+"major", major)
			set(key+"minor", minor)
		}
	}
}

// group are partitions that are one resource.
type group struct {
	resource string
	product  string
	parts    []facts.MIGDevice
}

// offered splits the GPUs into those that are offered whole and the groups of
// partitions that are offered in the place of others.
func offered(in Input, devices []facts.Device) (whole []facts.Device, groups []group) {
	if in.Strategy == device.MIGNone {
		return devices, nil
	}
	at := map[string]int{}
	for _, d := range devices {
		if !d.MIGEnabled {
			whole = append(whole, d)
			continue
		}
		for _, m := range d.MIG {
			if m.ComputeSlices != m.GPUSlices {
				continue
			}
			resource := names.ResourceGPU
			if in.Strategy == device.MIGMixed {
				resource = names.ResourceMIGPrefix + strings.ReplaceAll(m.Profile, "+", ".")
			}
			i, ok := at[resource]
			if !ok {
				i, at[resource] = len(groups), len(groups)
				groups = append(groups, group{resource: resource, product: d.Product + "-MIG-" + strings.ReplaceAll(m.Profile, "+", ".")})
			}
			groups[i].parts = append(groups[i].parts, m)
		}
	}
	return whole, groups
}

// gpus describes the resource nvidia.com/gpu. Of several models the most frequent
// one counts, and of equally frequent ones the first by index.
func gpus(in Input, whole []facts.Device, groups []group, set func(key, value string)) {
	all := in.Inventory.Devices
	d := model(whole)
	if d.UUID == "" {
		d = model(all)
	}
	set("gpu.family", Family(d.ComputeMajor, d.ComputeMinor))
	set("gpu.compute.major", strconv.Itoa(d.ComputeMajor))
	set("gpu.compute.minor", strconv.Itoa(d.ComputeMinor))
	product, count, replicas, memory := d.Product, len(whole), 1, d.Memory>>20
	if _, err := device.Resources(in.Inventory, in.Strategy); err != nil {
		product, count, replicas, memory = d.Product+"-MIG-INVALID", 0, 0, 0
	} else if in.Strategy == device.MIGSingle && len(groups) > 0 {
		return // the partitions are the GPUs
	} else if len(whole) == 0 {
		count, replicas = len(all), 0 // the parents of partitions that have names of their own
	}
	set("gpu.product", product)
	set("gpu.count", strconv.Itoa(count))
	set("gpu.replicas", strconv.Itoa(replicas))
	set("gpu.memory", strconv.FormatUint(memory, 10))
	set("gpu.sharing-strategy", "none")
}

// model is a device of the most frequent product.
func model(devices []facts.Device) facts.Device {
	var best facts.Device
	most := 0
	for _, d := range devices {
		n := 0
		for _, o := range devices {
			if o.Product == d.Product {
				n++
			}
		}
		if n > most && d.UUID != "" {
			best, most = d, n
		}
	}
	return best
}

// partitions describes each resource that is made of partitions.
func partitions(in Input, groups []group, set func(key, value string)) {
	if _, err := device.Resources(in.Inventory, in.Strategy); err != nil {
		return
	}
	for _, g := range groups {
		key, m := strings.TrimPrefix(g.resource, names.Group+"/")+".", g.parts[0]
		set(key+"product", g.product)
		for suffix, n := range map[string]int{
			"count": len(g.parts), "replicas": 1, "memory": int(m.Memory >> 20), "multiprocessors": m.Multiprocessors,
			"slices.gi": m.GPUSlices, "slices.ci": m.ComputeSlices, "engines.copy": m.CopyEngines, "engines.decoder": m.Decoders,
			"engines.encoder": m.Encoders, "engines.jpeg": m.JPEGEngines, "engines.ofa": m.OpticalFlowEngines,
		} {
			set(key+suffix, strconv.Itoa(n))
		}
		set(key+"sharing-strategy", "none")
	}
}

// Family is the name of the architecture with a compute capability.
func Family(major, minor int) string {
	switch major {
	case 1:
		return "tesla"
	case 2:
		return "fermi"
	case 3:
		return "kepler"
	case 5:
		return "maxwell"
	case 6:
		return "pascal"
	case 7:
		if minor < 5 {
			return "volta"
		}
		return "turing"
	case 8:
		if minor < 9 {
			return "ampere"
		}
		return "ada-lovelace"
	case 9:
		return "hopper"
	case 10, 11, 12:
		return "blackwell"
	}
	return "undefined"
}

// Value makes text valid as a label's value: letters, digits, '-', '_' and '.' stay,
// a run of white space becomes one '-', all else goes, and so do the ends that are
// not a letter or a digit and what is over the length. Empty when nothing is left.
func Value(text string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(text), "-") {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			b.WriteRune(r)
		}
	}
	v := strings.TrimLeft(b.String(), "-_.")
	if len(v) > maxValue {
		v = v[:maxValue]
	}
	return strings.TrimRight(v, "-_.")
}

// Explain says what in the labels stands for more than it can say; empty: nothing.
func Explain(inv facts.Inventory) string {
	models := map[string]int{}
	for _, d := range inv.Devices {
		if d.UUID != "" {
			models[d.Product]++
		}
	}
	if len(models) < 2 {
		return ""
	}
	return fmt.Sprintf("the node has %d models of GPU; the labels describe the most frequent one", len(models))
}
