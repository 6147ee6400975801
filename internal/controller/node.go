package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/gate"
	"gpu-operator/internal/names"
	"gpu-operator/internal/status"
)

// Node reconciles one node: its gates, its labels and its GPUNode. The work of an
// event does not depend on how many nodes there are.
type Node struct {
	Client client.Client
	Events events.EventRecorder
	State  *State
	Now    func() time.Time
}

// Reconcile implements reconcile.Reconciler, keyed by node name.
func (r *Node) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	policy, phase := r.State.Policy()
	if policy == nil {
		return reconcile.Result{}, nil
	}
	var node corev1.Node
	if err := r.Client.Get(ctx, req.NamespacedName, &node); apierrors.IsNotFound(err) {
		r.State.Forget(req.Name)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}
	if node.Labels[corev1.LabelOSStable] == "windows" {
		return reconcile.Result{}, nil
	}
	gpu, err := r.gpuNode(ctx, &node, phase)
	if err != nil {
		return reconcile.Result{}, err
	}
	facts := GateFacts(GatePolicy(policy, phase), &node, gpu)
	decisions := gate.Evaluate(facts)
	if err := r.writeLabels(ctx, &node, facts, decisions); err != nil {
		return reconcile.Result{}, err
	}
	said := status.OfNode(facts, decisions)
	if gpu != nil {
		if err := r.writeStatus(ctx, gpu, said); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.State.Learn(req.Name, status.Summarize(facts, said))
	return reconcile.Result{}, nil
}

// gpuNode returns the node's GPUNode, made when it is missing or was another
// node's of the same name; nil while the policy is being removed and there is none.
func (r *Node) gpuNode(ctx context.Context, node *corev1.Node, phase gate.Phase) (*v1alpha1.GPUNode, error) {
	var gpu v1alpha1.GPUNode
	err := r.Client.Get(ctx, types.NamespacedName{Name: node.Name}, &gpu)
	switch {
	case err == nil && ownedBy(&gpu, node):
		return &gpu, nil
	case err == nil:
		// A node that was rebuilt under its old name: what is known is of the old one.
		if err := r.Client.Delete(ctx, &gpu, client.Preconditions{UID: &gpu.UID}); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("deleting the GPUNode of the former node %q: %w", node.Name, err)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading GPUNode %q: %w", node.Name, err)
	}
	if phase != gate.Normal {
		return nil, nil
	}
	gpu = v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{
		Name:   node.Name,
		Labels: map[string]string{names.LabelManagedBy: names.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		}},
	}}
	if err := r.Client.Create(ctx, &gpu); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, nil // the cache is behind: its event comes
		}
		return nil, fmt.Errorf("creating GPUNode %q: %w", node.Name, err)
	}
	return &gpu, nil
}

// ownedBy reports whether the GPUNode is of this very node.
func ownedBy(gpu *v1alpha1.GPUNode, node *corev1.Node) bool {
	return slices.ContainsFunc(gpu.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == node.UID })
}

// writeLabels brings the node's labels where they shall be, in one patch, and says
// in an event which gates moved and why.
func (r *Node) writeLabels(ctx context.Context, node *corev1.Node, f gate.Facts, decisions []gate.Decision) error {
	labels, owned := labelPatch(f, decisions, node.Annotations)
	annotations := map[string]any{}
	if owned != node.Annotations[names.AnnotationGates] {
		annotations[names.AnnotationGates] = owned
		if owned == "" {
			annotations[names.AnnotationGates] = nil
		}
	}
	if len(labels) == 0 && len(annotations) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encoding the labels of node %q: %w", node.Name, err)
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("labelling node %q: %w", node.Name, err)
	}
	for _, d := range decisions {
		if _, moved := labels[d.Label]; moved {
			gateMoved(r.Events, node, d)
		}
	}
	return nil
}

// writeStatus applies the operator's part of a GPUNode's status when it differs.
func (r *Node) writeStatus(ctx context.Context, gpu *v1alpha1.GPUNode, n status.Node) error {
	conditions := slices.Clone(gpu.Status.Conditions)
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: n.Ready, Reason: n.Reason, Message: n.Message,
		LastTransitionTime: metav1.NewTime(r.Now()),
	})
	if gpu.Status.Stage == n.Stage && equality.Semantic.DeepEqual(gpu.Status.Gates, n.Gates) &&
		equality.Semantic.DeepEqual(gpu.Status.Conditions, conditions) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.GPUNode{
		Status: v1alpha1.GPUNodeStatus{Stage: n.Stage, Gates: n.Gates, Conditions: conditions},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of GPUNode %q: %w", gpu.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": content["status"]}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("GPUNode"))
	u.SetName(gpu.Name)
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(names.FieldManagerOperator), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of GPUNode %q: %w", gpu.Name, err)
	}
	return nil
}
