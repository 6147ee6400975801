package controller

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/gate"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
	"gpu-operator/internal/operand/all"
	"gpu-operator/internal/operand/toolkit"
)

// Removal waits for each step at most this long in all, then goes on with a
// warning: a node that is gone for good must not keep a policy for ever.
const (
	removalDeadline = 10 * time.Minute
	// removalLook is how often what the watches do not show is looked at again.
	removalLook = 2 * time.Second
)

// remove takes everything back in the reverse order of the gates, one step at a
// time. Which step is due is seen from the cluster, not remembered.
func (r *Policy) remove(ctx context.Context, p *v1.ClusterPolicy) (reconcile.Result, error) {
	if r.State.IsGone(p.UID) {
		return reconcile.Result{}, nil
	}
	overdue := r.Now().Sub(p.DeletionTimestamp.Time) > removalDeadline
	_, phase := r.State.Policy()
	if phase == gate.Normal {
		phase = gate.StopOperands
		removalStep(r.Events, p, "stopping device plugin, feature discovery and exporter on all nodes")
	}
	if r.State.SetPolicy(p, phase) {
		if err := r.Nodes(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	waits, err := r.waitsFor(ctx, p, phase)
	if err != nil {
		return reconcile.Result{}, err
	}
	if waits != "" && !overdue {
		s, conditions := r.removalStatus(p, waits)
		return reconcile.Result{RequeueAfter: removalLook}, r.writeStatus(ctx, p, s, conditions)
	}
	if waits != "" {
		removalOverdue(r.Events, p, "going on without: "+waits)
	}
	switch phase {
	case gate.StopOperands:
		removalStep(r.Events, p, "undoing host changes on all nodes")
		r.State.SetPolicy(p, gate.UndoToolkit)
		return reconcile.Result{RequeueAfter: removalLook}, r.Nodes(ctx)
	case gate.UndoToolkit:
		removalStep(r.Events, p, "stopping toolkit and driver on all nodes")
		r.State.SetPolicy(p, gate.UndoDriver)
		return reconcile.Result{RequeueAfter: removalLook}, r.Nodes(ctx)
	case gate.Normal, gate.UndoDriver: // nothing is left to wait for
	}
	if err := r.clean(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.dropFinalizer(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	r.State.Gone(p.UID)
	return reconcile.Result{}, nil
}

// removalStatus is what the policy says while it goes.
func (r *Policy) removalStatus(p *v1.ClusterPolicy, waits string) (v1.ClusterPolicyStatus, []metav1.Condition) {
	s := r.State.Fleet().Policy()
	s.State, s.BlockedNodes = v1.StateNotReady, nil
	return s, []metav1.Condition{{
		Type: v1alpha1.ConditionPolicyReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRemoving,
		Message: "waiting for " + waits, ObservedGeneration: p.Generation,
	}}
}

// waitsFor says what the present phase still waits for; "" when it is done.
func (r *Policy) waitsFor(ctx context.Context, p *v1.ClusterPolicy, phase gate.Phase) (string, error) {
	switch phase {
	case gate.StopOperands:
		for _, name := range []string{names.DaemonSetDevicePlugin, names.DaemonSetFeatureDiscovery, names.DaemonSetExporter} {
			if waits, err := r.podsOf(ctx, name); err != nil || waits != "" {
				return waits, err
			}
		}
		return r.advertisers(ctx)
	case gate.UndoToolkit:
		in := operand.Input{Settings: r.Settings, Policy: p, Undo: true}
		for _, o := range toolkit.Objects(in) {
			if _, err := r.Objects.Apply(ctx, o); err != nil {
				return "", err
			}
		}
		return r.changedHosts(), nil
	case gate.Normal, gate.UndoDriver:
	}
	for _, name := range []string{names.DaemonSetToolkit, names.DaemonSetDriver} {
		if waits, err := r.podsOf(ctx, name); err != nil || waits != "" {
			return waits, err
		}
	}
	return r.labelled(ctx)
}

// labelled says which nodes still carry labels of ours.
func (r *Policy) labelled(ctx context.Context) (string, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	var left []string
	for i := range nodes.Items {
		n := &nodes.Items[i]
		mine := n.Annotations[names.AnnotationGates] != ""
		for _, step := range gate.Steps() {
			v := n.Labels[step.Label]
			mine = mine || v == names.GateOpen || v == names.GatePreInstalled
		}
		if mine {
			left = append(left, n.Name)
		}
	}
	return listOf("labels to be removed", left), nil
}

// podsOf says that a DaemonSet still has pods.
func (r *Policy) podsOf(ctx context.Context, name string) (string, error) {
	var ds appsv1.DaemonSet
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Settings.Namespace, Name: name}, &ds)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading DaemonSet %q: %w", name, err)
	}
	if n := ds.Status.CurrentNumberScheduled + ds.Status.NumberMisscheduled; n > 0 {
		return fmt.Sprintf("%d pods of %s", n, name), nil
	}
	return "", nil
}

// advertisers says which nodes still offer GPUs.
func (r *Policy) advertisers(ctx context.Context) (string, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if GateFacts(gate.Policy{}, &nodes.Items[i], nil).Allocatable > 0 {
			names = append(names, nodes.Items[i].Name)
		}
	}
	return listOf("allocatable GPUs to leave", names), nil
}

// changedHosts says on which nodes something of ours is left on the host.
func (r *Policy) changedHosts() string {
	var names []string
	for name, n := range r.State.Fleet() {
		if !n.Removed {
			names = append(names, name)
		}
	}
	return listOf("host changes to be undone", names)
}

// listOf is what is waited for on some nodes; "" for none.
func listOf(what string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	sort.Strings(names)
	if len(names) > 5 {
		names = append(names[:5:5], fmt.Sprintf("and %d more", len(names)-5))
	}
	return what + " on " + strings.Join(names, ", ")
}

// clean deletes every object of the operator, and every GPUNode and label.
func (r *Policy) clean(ctx context.Context, p *v1.ClusterPolicy) error {
	in := operand.Input{Settings: r.Settings, Policy: p}
	objects := all.RuntimeClasses(in)
	for _, row := range all.Table() {
		objects = append(objects, row.Objects(in)...)
	}
	for _, o := range objects {
		if _, err := r.Objects.Delete(ctx, o); err != nil {
			return err
		}
	}
	var gpus v1alpha1.GPUNodeList
	if err := r.Client.List(ctx, &gpus); err != nil {
		return fmt.Errorf("listing GPUNodes: %w", err)
	}
	for i := range gpus.Items {
		if err := r.Client.Delete(ctx, &gpus.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting GPUNode %q: %w", gpus.Items[i].Name, err)
		}
	}
	return nil
}
