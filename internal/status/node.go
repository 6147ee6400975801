// Package status computes what is said of nodes and of the policy from what was
// seen and decided: stage, conditions, counts, fingerprint groups. Pure: the
// caller gives the facts and writes the result.
package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/gate"
)

// Node is what the operator says of one node.
type Node struct {
	Stage           string
	Gates           []v1alpha1.Gate
	Ready           metav1.ConditionStatus
	Reason, Message string
}

// OfNode derives stage and readiness from a node's facts and its gates' decisions.
func OfNode(f gate.Facts, decisions []gate.Decision) Node {
	n := Node{Ready: metav1.ConditionFalse}
	for _, d := range decisions {
		n.Gates = append(n.Gates, d.Gate)
	}
	n.Stage, n.Reason, n.Message = stage(f, decisions)
	switch n.Stage {
	case v1alpha1.StageReady:
		n.Ready = metav1.ConditionTrue
	case v1alpha1.StageUnknown:
		n.Ready = metav1.ConditionUnknown
	}
	return n
}

// stage is the first step that is not proven, with why.
func stage(f gate.Facts, decisions []gate.Decision) (stage, reason, message string) {
	if f.Policy.Phase != gate.Normal {
		return v1alpha1.StageRemoving, v1alpha1.ReasonPolicyDeleted, "the ClusterPolicy is being removed"
	}
	if !f.Fresh() {
		return v1alpha1.StageUnknown, v1alpha1.ReasonNodeNotInspected, decisions[0].Message
	}
	if f.GPUs() == 0 {
		return v1alpha1.StageNoGPU, v1alpha1.ReasonNoGPU, "no GPU for containers on this node"
	}
	byStep := map[string]gate.Decision{}
	optedOut := 0
	for _, d := range decisions {
		byStep[d.Step] = d
		if d.State == v1alpha1.GateOptedOut {
			optedOut++
		}
	}
	if optedOut == len(decisions) {
		return v1alpha1.StageOptedOut, v1alpha1.ReasonOptedOut, decisions[0].Message
	}
	// A gate that is closed blames the step before it.
	for _, row := range []struct{ gate, blames string }{
		{v1alpha1.StepToolkit, v1alpha1.StageDriver},
		{v1alpha1.StepDevicePlugin, v1alpha1.StageToolkit},
		{v1alpha1.StepFeatureDiscovery, v1alpha1.StageToolkit},
		{v1alpha1.StepExporter, v1alpha1.StageToolkit},
	} {
		d := byStep[row.gate]
		switch d.State {
		case v1alpha1.GateClosed, v1alpha1.GateHeld:
			if d.Reason == v1alpha1.ReasonDriverNotReady || d.Reason == v1alpha1.ReasonDriverVersionNotWanted {
				return v1alpha1.StageDriver, d.Reason, d.Message
			}
			return row.blames, d.Reason, d.Message
		case v1alpha1.GatePaused:
			return row.blames, d.Reason, d.Message
		}
	}
	if byStep[v1alpha1.StepDevicePlugin].State == v1alpha1.GateOpen && f.Allocatable == 0 {
		return v1alpha1.StageDevicePlugin, v1alpha1.ReasonNoAllocatable,
			"the node offers no GPU yet; see the pod of the device plugin on this node"
	}
	if byStep[v1alpha1.StepFeatureDiscovery].State == v1alpha1.GateOpen &&
		(f.Status.Discovery == nil || f.Status.Discovery.BootID != f.BootID) {
		return v1alpha1.StageOperands, v1alpha1.ReasonNoDiscovery, "feature discovery has not spoken in this boot; see its pod on this node"
	}
	return v1alpha1.StageReady, v1alpha1.ReasonReady, fmt.Sprintf("%d GPUs allocatable", f.Allocatable)
}
