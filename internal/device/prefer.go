package device

import (
	"fmt"
	"slices"

	"gpu-operator/internal/facts"
)

// What a pair of GPUs is worth. A single NVLink outweighs any number of pairs on one
// NUMA node: traffic over it does not cross the PCIe root at all.
const (
	worthLink = 1000
	worthNUMA = 1
)

// mostSets bounds the exhaustive search: 16 GPUs taken by 8 are 12,870 sets. Above
// it a set is grown one GPU at a time.
const mostSets = 20000

// Prefer picks size units out of available that work best together, must among them:
// those with the most NVLinks between them, then those on one NUMA node, then those
// that leave the best set behind, then the first. It fails when it cannot be done.
func Prefer(available, must []Unit, size int) ([]Unit, error) {
	if size < len(must) || size > len(available) {
		return nil, fmt.Errorf("%d devices are asked for, %d of them fixed, out of %d", size, len(must), len(available))
	}
	for _, m := range must {
		if !slices.ContainsFunc(available, func(u Unit) bool { return u.ID == m.ID }) {
			return nil, fmt.Errorf("device %q has to be among the picked ones and is not available", m.ID)
		}
	}
	free := slices.DeleteFunc(slices.Clone(available), func(u Unit) bool {
		return slices.ContainsFunc(must, func(m Unit) bool { return m.ID == u.ID })
	})
	if sets(len(free), size-len(must)) > mostSets {
		return grow(free, must, size), nil
	}
	return search(free, must, size), nil
}

// sets is n over k, or more than mostSets.
func sets(n, k int) int {
	out := 1
	for i := range min(k, n-k) {
		out = out * (n - i) / (i + 1)
		if out > mostSets {
			return out
		}
	}
	return out
}

// search looks at every set.
func search(free, must []Unit, size int) []Unit {
	var best []Unit
	bestWorth, bestRest := -1, -1
	chosen := make([]bool, len(free))
	var pick func(from, left int)
	pick = func(from, left int) {
		if left == 0 {
			set, rest := split(free, must, chosen)
			w, r := worth(set), worth(rest)
			if w > bestWorth || w == bestWorth && r > bestRest {
				best, bestWorth, bestRest = set, w, r
			}
			return
		}
		for i := from; i <= len(free)-left; i++ {
			chosen[i] = true
			pick(i+1, left-1)
			chosen[i] = false
		}
	}
	pick(0, size-len(must))
	return best
}

// split returns the chosen units after must, and the others.
func split(free, must []Unit, chosen []bool) (set, rest []Unit) {
	set = slices.Clone(must)
	for i, u := range free {
		if chosen[i] {
			set = append(set, u)
		} else {
			rest = append(rest, u)
		}
	}
	return set, rest
}

// grow adds the unit that is worth most to what is there, until it is enough.
func grow(free, must []Unit, size int) []Unit {
	set, free := slices.Clone(must), slices.Clone(free)
	for len(set) < size {
		best, bestWorth := 0, -1
		for i, u := range free {
			if w := worth(append(slices.Clone(set), u)); w > bestWorth {
				best, bestWorth = i, w
			}
		}
		set = append(set, free[best])
		free = slices.Delete(free, best, best+1)
	}
	return set
}

// worth adds up what all pairs of a set are worth.
func worth(set []Unit) int {
	w := 0
	for i, a := range set {
		for _, b := range set[i+1:] {
			w += worthLink * linksBetween(a, b)
			if a.NUMA != facts.NoNUMA && a.NUMA == b.NUMA {
				w += worthNUMA
			}
		}
	}
	return w
}

// linksBetween counts the NVLinks between two GPUs, straight ones and those through
// switches.
func linksBetween(a, b Unit) int {
	return a.Links[b.BusID] + min(a.Links[facts.LinkSwitch], b.Links[facts.LinkSwitch])
}
