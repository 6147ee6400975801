package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/gate"
)

// listed bounds how many nodes and groups a policy's status names.
const listed = 10

// Summary is what the policy's status needs of one node.
type Summary struct {
	GPU                    bool
	Stage, Reason, Message string
	States                 map[string]string // gate state by step
	Fingerprint, Drift     string
	Removed                bool // nothing of ours is left on the host
}

// Summarize is the summary of a node.
func Summarize(f gate.Facts, n Node) Summary {
	s := Summary{Stage: n.Stage, Reason: n.Reason, Message: n.Message, States: map[string]string{}}
	for _, g := range n.Gates {
		s.States[g.Step] = g.State
	}
	if f.Status != nil {
		s.GPU = f.GPUs() > 0
		s.Drift = f.Status.Drift
		if f.Status.Fingerprint != nil {
			s.Fingerprint = f.Status.Fingerprint.Short
		}
	}
	s.Removed = removed(f)
	return s
}

// removed reports whether the toolkit has undone everything on the node's host.
func removed(f gate.Facts) bool {
	if f.Status == nil {
		return true
	}
	for _, e := range f.Status.Evidence {
		if e.Step == v1alpha1.StepToolkit && (e.Phase != "Undone" || !e.Ready) {
			return false
		}
	}
	return len(f.Status.HostChanges) == 0
}

// Fleet is what is known of all nodes, by name.
type Fleet map[string]Summary

// Policy computes the part of a ClusterPolicy's status that follows from its nodes.
func (fleet Fleet) Policy() v1.ClusterPolicyStatus {
	var s v1.ClusterPolicyStatus
	names := make([]string, 0, len(fleet))
	for name := range fleet {
		names = append(names, name)
	}
	slices.Sort(names)
	steps := make([]v1.StepCount, len(gate.Steps()))
	for i, step := range gate.Steps() {
		steps[i].Step = step.Name
	}
	groups := map[string]*v1.FingerprintGroup{}
	for _, name := range names {
		n := fleet[name]
		if !n.GPU {
			continue
		}
		s.GPUNodes++
		count(steps, n)
		switch n.Stage {
		case v1alpha1.StageReady:
			s.ReadyNodes++
		case v1alpha1.StageOptedOut:
		default:
			if len(s.BlockedNodes) < listed {
				s.BlockedNodes = append(s.BlockedNodes, v1.BlockedNode{Node: name, Stage: n.Stage, Reason: n.Reason, Message: n.Message})
			}
		}
		if n.Fingerprint == "" {
			continue
		}
		if groups[n.Fingerprint] == nil {
			groups[n.Fingerprint] = &v1.FingerprintGroup{Hash: n.Fingerprint, Example: name}
		}
		groups[n.Fingerprint].Nodes++
	}
	s.Steps = steps
	s.FingerprintCount = int32(len(groups)) //nolint:gosec // bounded by the number of nodes
	for _, g := range groups {
		s.Fingerprints = append(s.Fingerprints, *g)
	}
	slices.SortFunc(s.Fingerprints, func(a, b v1.FingerprintGroup) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Hash, b.Hash))
	})
	if len(s.Fingerprints) > listed {
		s.Fingerprints = s.Fingerprints[:listed]
	}
	return s
}

// count adds a node to the counts of each step.
func count(steps []v1.StepCount, n Summary) {
	for i := range steps {
		switch n.States[steps[i].Step] {
		case v1alpha1.GateOpen, v1alpha1.GatePreInstalled, v1alpha1.GateHeld:
			steps[i].Wanted++
			steps[i].Open++
		case v1alpha1.GateClosed:
			steps[i].Wanted++
			steps[i].Blocked++
		}
	}
}

// drifted are the GPU nodes whose host differs from what was applied, by name.
func (fleet Fleet) drifted() []string {
	var names []string
	for name, n := range fleet {
		if n.GPU && n.Drift == "Drifted" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Conditions are the policy's conditions for the status s of the fleet;
// unsupported are paths of fields that are set and not implemented.
func (fleet Fleet) Conditions(s v1.ClusterPolicyStatus, unsupported []string, generation int64) []metav1.Condition {
	make := func(kind string, is bool, reason, message string) metav1.Condition {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: generation}
		if is {
			c.Status = metav1.ConditionTrue
		}
		return c
	}
	blocked := len(s.BlockedNodes) > 0
	reason, message := v1alpha1.ReasonAllNodesReady, fmt.Sprintf("%d of %d GPU nodes are ready", s.ReadyNodes, s.GPUNodes)
	switch {
	case s.GPUNodes == 0:
		reason, message = v1alpha1.ReasonNoGPUNodes, "no node has a GPU"
	case blocked:
		first := s.BlockedNodes[0]
		reason = v1alpha1.ReasonNodesNotReady
		message += fmt.Sprintf("; %s is at %s: %s: %s", first.Node, first.Stage, first.Reason, first.Message)
	}
	conditions := []metav1.Condition{
		make(v1alpha1.ConditionPolicyReady, !blocked, reason, message),
		make(v1alpha1.ConditionProgressing, blocked, reason, message),
	}
	drifted := fleet.drifted()
	switch {
	case len(drifted) > 0:
		conditions = append(conditions, make(v1alpha1.ConditionDrifted, true, v1alpha1.ReasonHostDrifted,
			fmt.Sprintf("host files were changed by somebody else on %s", strings.Join(first(drifted), ", "))))
	case s.FingerprintCount > 1:
		conditions = append(conditions, make(v1alpha1.ConditionDrifted, true, v1alpha1.ReasonNodesDiffer,
			fmt.Sprintf("GPU nodes have %d fingerprints; see status.fingerprints and the leaves in GPUNodes", s.FingerprintCount)))
	default:
		conditions = append(conditions, make(v1alpha1.ConditionDrifted, false, v1alpha1.ReasonNodesSame, "all GPU nodes are the same"))
	}
	if len(unsupported) > 0 {
		return append(conditions, make(v1alpha1.ConditionUnsupportedFields, true, v1alpha1.ReasonFieldsUnsupported,
			"set and not implemented: "+strings.Join(unsupported, ", ")))
	}
	return append(conditions, make(v1alpha1.ConditionUnsupportedFields, false, v1alpha1.ReasonAllFieldsSupported, "every field that is set takes effect"))
}

// first are the first names of a list that a message can hold.
func first(names []string) []string {
	if len(names) > listed {
		return append(names[:listed:listed], fmt.Sprintf("and %d more", len(names)-listed))
	}
	return names
}
