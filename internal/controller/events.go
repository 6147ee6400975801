package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/gate"
)

// Reasons of events.
const (
	// EventGateOpened and EventGateClosed: a gate moved; the note has the evidence.
	EventGateOpened = "GateOpened"
	EventGateClosed = "GateClosed"
	// EventRemovalOverdue: removing the policy waits longer than it should.
	EventRemovalOverdue = "RemovalOverdue"
	// EventRemovalStep: removing the policy reached its next step.
	EventRemovalStep = "RemovalStep"
)

// gateMoved tells on the node that a gate opened or closed, and why.
func gateMoved(r events.EventRecorder, node *corev1.Node, d gate.Decision) {
	if d.Value == "" {
		r.Eventf(node, nil, corev1.EventTypeNormal, EventGateClosed, "CloseGate", "Gate %s closed: %s: %s", d.Step, d.Reason, d.Message)
		return
	}
	r.Eventf(node, nil, corev1.EventTypeNormal, EventGateOpened, "OpenGate", "Gate %s open (%s): %s: %s", d.Step, d.Value, d.Reason, d.Message)
}

// removalStep tells on the policy what its removal does now.
func removalStep(r events.EventRecorder, p *v1.ClusterPolicy, note string) {
	r.Eventf(p, nil, corev1.EventTypeNormal, EventRemovalStep, "Remove", "%s", note)
}

// removalOverdue tells on the policy what its removal waits for.
func removalOverdue(r events.EventRecorder, p *v1.ClusterPolicy, note string) {
	r.Eventf(p, nil, corev1.EventTypeWarning, EventRemovalOverdue, "Remove", "%s", note)
}
