// Package check holds what can be wrong with a node: one file a check, each a pure
// function from what was seen to a finding with its evidence and its remedy, or
// nil. All is the table; its order is the order of findings.
package check

import (
	"fmt"
	"strings"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// Check looks at a node and returns a finding, or nil when nothing is wrong.
type Check func(facts.Node) *v1alpha1.Finding

// table lists every check, what comes first in a node's life first.
func table() []Check {
	return []Check{
		pciUnreadable,    // nothing can be said about GPUs
		foreignDriver,    // nouveau or nova_core holds a GPU
		gpuPassedThrough, // a GPU belongs to virtual machines
		moduleUnloading,  // only a reboot helps
		driverState,      // the driver cannot answer
		secureBoot,       // and this may be why
		gpuUnbound,       // the driver left a GPU out
		gpuLost,          // a GPU fell off the bus
		uvmMissing,       // nvidia-smi works, CUDA does not
		runtimeNotFound,  // which runtime serves the kubelet?
		kubeletRoot,      // sockets are not where they usually are
		cdiInvalid,       // a file among the CDI specs is none
		cdiStale,         // a CDI spec of another driver
		cdiPathMissing,   // a CDI spec that cannot be injected
		cdiDuplicate,     // two CDI specs for the same devices
		evidenceStale,    // evidence of another boot
		evidenceInvalid,  // evidence that cannot be read
		ledgerInvalid,    // what we changed is not known
		hostDrift,        // somebody changed what we wrote
	}
}

// All runs every check and returns the findings in the order of the table, each
// reason at most once.
func All(n facts.Node) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, c := range table() {
		if f := c(n); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// shown is how many items of a list a finding shows.
const shown = 5

// enumerate joins the first items and says how many more there are.
func enumerate(items []string) string {
	if len(items) <= shown {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:shown], "; "), len(items)-shown)
}

// some returns a finding over a list of evidence, nil for an empty list.
func some(f v1alpha1.Finding, items []string) *v1alpha1.Finding {
	if len(items) == 0 {
		return nil
	}
	f.Evidence = enumerate(items)
	return &f
}

// boundTo returns the GPUs that one of the drivers holds, as "address is bound to driver".
func boundTo(n facts.Node, want func(driver string) bool) []string {
	var out []string
	for _, g := range n.GPUs {
		if want(g.Driver) {
			out = append(out, fmt.Sprintf("%s is bound to %s", g.Address, g.Driver))
		}
	}
	return out
}
