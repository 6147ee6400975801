package device

import (
	"fmt"
	"slices"
	"strings"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// Strategy is how MIG partitions are offered.
type Strategy string

// Strategies, with upstream's names.
const (
	// MIGNone offers whole GPUs only, partitioned ones too.
	MIGNone Strategy = "none"
	// MIGSingle offers the partitions of a uniformly partitioned node as nvidia.com/gpu.
	MIGSingle Strategy = "single"
	// MIGMixed offers partitions as nvidia.com/mig-<profile> and whole GPUs beside them.
	MIGMixed Strategy = "mixed"
)

// ParseStrategy reads a MIG strategy; empty is none.
func ParseStrategy(v string) (Strategy, error) {
	switch s := Strategy(v); s {
	case "":
		return MIGNone, nil
	case MIGNone, MIGSingle, MIGMixed:
		return s, nil
	}
	return "", fmt.Errorf("MIG strategy is %q, want none, single or mixed", v)
}

// Unit is one thing that a container can be given.
type Unit struct {
	// ID is what the kubelet knows it by: the UUID of the GPU or partition.
	ID string
	// GPU is the UUID of the GPU that it is or is a part of.
	GPU string
	// Index is the GPU's index, or "<GPU's>:<partition's>".
	Index string
	// GPUInstance is the partition's id, or facts.WholeGPU.
	GPUInstance int
	// Minor is the N of the GPU's /dev/nvidiaN.
	Minor int
	// NUMA is the NUMA node, or facts.NoNUMA.
	NUMA int
	// BusID and Links tell how it is connected.
	BusID string
	Links map[string]int
}

// Resource is an extended resource with its units.
type Resource struct {
	// Name is the full name (nvidia.com/gpu).
	Name string
	// Units are in order of the GPUs' index.
	Units []Unit
}

// Resources returns the resources that an inventory makes up, in order of name.
// GPUs that never said who they are cannot be offered. It fails when the node does
// not fit the strategy; the message says what would have to be otherwise.
func Resources(inv facts.Inventory, strategy Strategy) ([]Resource, error) {
	if strategy == MIGSingle && slices.ContainsFunc(inv.Devices, func(d facts.Device) bool { return d.MIGEnabled }) {
		return single(inv)
	}
	byName := map[string][]Unit{}
	for _, d := range inv.Devices {
		switch {
		case d.UUID == "":
		case strategy == MIGMixed && d.MIGEnabled:
			for i, m := range d.MIG {
				// A partition of fewer compute than GPU slices shares its GPU
				// instance with others and is not a resource of its own.
				if m.ComputeSlices == m.GPUSlices {
					name := names.ResourceMIGPrefix + strings.ReplaceAll(m.Profile, "+", ".")
					byName[name] = append(byName[name], part(d, i))
				}
			}
		default:
			byName[names.ResourceGPU] = append(byName[names.ResourceGPU], whole(d))
		}
	}
	return sorted(byName), nil
}

// single offers the partitions as GPUs, if they are all of one kind.
func single(inv facts.Inventory) ([]Resource, error) {
	profile := ""
	var units []Unit
	for _, d := range inv.Devices {
		switch {
		case !d.MIGEnabled:
			return nil, fmt.Errorf("MIG strategy single wants every GPU partitioned, GPU %d is not; partition it, or use the strategy mixed", d.Index)
		case len(d.MIG) == 0:
			return nil, fmt.Errorf("MIG strategy single wants partitions on every GPU, GPU %d has none; make some, or use the strategy mixed", d.Index)
		}
		for i, m := range d.MIG {
			if profile == "" {
				profile = m.Profile
			}
			if m.Profile != profile {
				return nil, fmt.Errorf("MIG strategy single wants one profile on all GPUs, here are %s and %s; make them equal, or use the strategy mixed", profile, m.Profile)
			}
			units = append(units, part(d, i))
		}
	}
	return []Resource{{Name: names.ResourceGPU, Units: units}}, nil
}

// whole is a GPU as a unit.
func whole(d facts.Device) Unit {
	return Unit{
		ID: d.UUID, GPU: d.UUID, Index: fmt.Sprint(d.Index), GPUInstance: facts.WholeGPU,
		Minor: d.Minor, NUMA: d.NUMA, BusID: d.BusID, Links: d.Links,
	}
}

// part is a partition as a unit.
func part(d facts.Device, i int) Unit {
	return Unit{
		ID: d.MIG[i].UUID, GPU: d.UUID, Index: fmt.Sprintf("%d:%d", d.Index, i), GPUInstance: d.MIG[i].GPUInstance,
		Minor: d.Minor, NUMA: d.NUMA, BusID: d.BusID,
	}
}

// sorted returns resources in order of name.
func sorted(byName map[string][]Unit) []Resource {
	var out []Resource
	for name, units := range byName {
		out = append(out, Resource{Name: name, Units: units})
	}
	slices.SortFunc(out, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find returns the units with the given ids, in the order asked for. It fails for an
// id that is not of the resource.
func (r Resource) Find(ids []string) ([]Unit, error) {
	var out []Unit
	for _, id := range ids {
		i := slices.IndexFunc(r.Units, func(u Unit) bool { return u.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("device %q is not one of %s on this node", id, r.Name)
		}
		out = append(out, r.Units[i])
	}
	return out, nil
}

// Place is where in the resource a unit stands; -1: nowhere.
func (r Resource) Place(id string) int {
	return slices.IndexFunc(r.Units, func(u Unit) bool { return u.ID == id })
}
