package machine

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MIGProfile is one size of GPU instance that a model can be cut into, with the
// figures of the vendor's MIG user guide.
type MIGProfile struct {
	// Name is the size as users write it: 1g.10gb.
	Name string `json:"name"`
	// ID is the number that the driver gives to the size; Enum is NVML's constant
	// for it (GPU_INSTANCE_PROFILE_*).
	ID   int `json:"id"`
	Enum int `json:"enum"`
	// Slices of the GPU's seven compute slices, and of its eight memory slices.
	Slices       int `json:"slices"`
	MemorySlices int `json:"memorySlices"`
	// Instances is how many of this size fit on one GPU.
	Instances       int `json:"instances"`
	Multiprocessors int `json:"multiprocessors"`
	MemoryMiB       int `json:"memoryMiB"`
	CopyEngines     int `json:"copyEngines"`
	Decoders        int `json:"decoders"`
	JPEG            int `json:"jpeg"`
	OFA             int `json:"ofa"`
}

// What one GPU can be cut into.
const (
	computeSlices = 7
	memorySlices  = 8
)

// profilePrefix and instancePrefix start the record's keys of sizes and instances.
const (
	profilePrefix  = "mig.profile."
	instancePrefix = "mig.instance."
)

// value renders a profile as the record has it: numbers in a fixed order.
func (p MIGProfile) value() string {
	return fmt.Sprint(p.ID, p.Enum, p.Slices, p.MemorySlices, p.Instances, p.Multiprocessors,
		p.MemoryMiB, p.CopyEngines, p.Decoders, p.JPEG, p.OFA)
}

// parseProfile reads what value wrote.
func parseProfile(name, value string) (MIGProfile, error) {
	p := MIGProfile{Name: name}
	_, err := fmt.Sscan(value, &p.ID, &p.Enum, &p.Slices, &p.MemorySlices, &p.Instances, &p.Multiprocessors,
		&p.MemoryMiB, &p.CopyEngines, &p.Decoders, &p.JPEG, &p.OFA)
	if err != nil {
		return p, fmt.Errorf("the record's size %q reads %q: %w", name, value, err)
	}
	return p, nil
}

// check says what is wrong with a profile of a model.
func (p MIGProfile) check() error {
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, " ,=\n"):
		return fmt.Errorf("MIG profile %q has no name such as 1g.10gb", p.Name)
	case p.Slices < 1 || p.Slices > computeSlices || p.MemorySlices < 1 || p.MemorySlices > memorySlices:
		return fmt.Errorf("MIG profile %q has %d compute and %d memory slices; 1 to %d and 1 to %d are possible",
			p.Name, p.Slices, p.MemorySlices, computeSlices, memorySlices)
	case p.Instances < 1 || p.MemoryMiB < 1 || p.Multiprocessors < 1:
		return fmt.Errorf("MIG profile %q lacks instances, memoryMiB or multiprocessors", p.Name)
	}
	return nil
}

// firstInstance is the lowest GPU instance id that the driver gives to a size of so
// many slices: seven 0, four and three 1, two 3, one 7.
func firstInstance(slices int) int {
	switch slices {
	case computeSlices:
		return 0
	case 3, 4:
		return 1
	case 2:
		return 3
	}
	return 7
}

// setMIG partitions a GPU: "off" turns MIG off, "on" turns it on with no instance,
// a list of sizes (3g.40gb,1g.10gb) makes these instances in place of all others.
// Every GPU instance holds one compute instance of its whole size.
func setMIG(gpu map[string]string, value string) error {
	profiles := map[string]MIGProfile{}
	for k, v := range gpu {
		name, is := strings.CutPrefix(k, profilePrefix)
		if !is {
			continue
		}
		p, err := parseProfile(name, v)
		if err != nil {
			return err
		}
		profiles[name] = p
	}
	if len(profiles) == 0 {
		return fmt.Errorf("mig=%s: this GPU (%s) cannot be partitioned", value, gpu["name"])
	}
	var instances []string
	if value != "on" && value != "off" {
		var err error
		if instances, err = cut(gpu["uuid"], strings.Split(value, ","), profiles); err != nil {
			return fmt.Errorf("mig=%s: %w", value, err)
		}
	}
	maps.DeleteFunc(gpu, func(k, _ string) bool { return strings.HasPrefix(k, instancePrefix) })
	gpu["mig.mode"] = "1"
	if value == "off" {
		gpu["mig.mode"] = "0"
	}
	for i, v := range instances {
		gpu[instancePrefix+strconv.Itoa(i)] = v
	}
	return nil
}

// cut makes the instances of the named sizes: GPU instance, compute instance, size
// and identity each.
func cut(uuid string, names []string, profiles map[string]MIGProfile) ([]string, error) {
	var out []string
	compute, memory := computeSlices, memorySlices
	count, taken := map[string]int{}, map[int]bool{}
	for _, name := range names {
		p, known := profiles[name]
		if !known {
			return nil, fmt.Errorf("%q is none of this GPU's sizes: %s (or on, off)", name, strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
		}
		count[name]++
		compute, memory = compute-p.Slices, memory-p.MemorySlices
		if compute < 0 || memory < 0 || count[name] > p.Instances {
			return nil, fmt.Errorf("%d of %q do not fit beside the others: one GPU has %d compute and %d memory slices", count[name], name, computeSlices, memorySlices)
		}
		gi := firstInstance(p.Slices)
		for taken[gi] {
			gi++
		}
		taken[gi] = true
		out = append(out, fmt.Sprintf("%d 0 %s MIG-%s", gi, name, hexIdentity(sha256.Sum256(fmt.Appendf(nil, "gpusim mig %s %d 0", uuid, gi)))))
	}
	return out, nil
}

// MIGInstance is one partition of a GPU.
type MIGInstance struct {
	GPUInstance, ComputeInstance int
	Profile, UUID                string
}

// MIGInstances are the partitions of a GPU in the record, in the order of their
// index.
func MIGInstances(gpu map[string]string) []MIGInstance {
	var out []MIGInstance
	for i := range computeSlices {
		var m MIGInstance
		if _, err := fmt.Sscan(gpu[instancePrefix+strconv.Itoa(i)], &m.GPUInstance, &m.ComputeInstance, &m.Profile, &m.UUID); err != nil {
			break // no more
		}
		out = append(out, m)
	}
	return out
}
