package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/cluster/object"
	"gpu-operator/internal/compat"
	"gpu-operator/internal/gate"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
	"gpu-operator/internal/operand/all"
)

// Policy reconciles the ClusterPolicy: the operator's objects, the policy's status
// and its removal. It is asked with one key for all policies.
type Policy struct {
	Client   client.Client
	Objects  *object.Applier
	Events   events.EventRecorder
	State    *State
	Settings operand.Settings
	// Nodes asks for a look at every node.
	Nodes func(context.Context) error
	Now   func() time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *Policy) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var list v1.ClusterPolicyList
	if err := r.Client.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing ClusterPolicies: %w", err)
	}
	policies := list.Items
	// The oldest is in force; names decide between policies of the same second.
	slices.SortFunc(policies, func(a, b v1.ClusterPolicy) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(policies) == 0 {
		r.State.SetPolicy(nil, gate.Normal)
		return reconcile.Result{}, nil
	}
	for i := range policies[1:] {
		if err := r.refuse(ctx, &policies[1+i], policies[0].Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	p := &policies[0]
	if !p.DeletionTimestamp.IsZero() {
		return r.remove(ctx, p)
	}
	return reconcile.Result{}, r.enforce(ctx, p)
}

// refuse says on a second policy that another one is in force.
func (r *Policy) refuse(ctx context.Context, p *v1.ClusterPolicy, inForce string) error {
	if !p.DeletionTimestamp.IsZero() {
		// It never did anything: nothing is to be undone.
		return r.dropFinalizer(ctx, p)
	}
	s := v1.ClusterPolicyStatus{State: v1.StateIgnored, ObservedGeneration: p.Generation}
	conditions := []metav1.Condition{{
		Type: v1alpha1.ConditionPolicyReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSecondPolicy,
		Message: fmt.Sprintf("ClusterPolicy %q is in force; delete one of the two", inForce), ObservedGeneration: p.Generation,
	}}
	return r.writeStatus(ctx, p, s, conditions)
}

// enforce brings the operator's objects where the policy wants them.
func (r *Policy) enforce(ctx context.Context, p *v1.ClusterPolicy) error {
	if !controllerutil.ContainsFinalizer(p, names.Finalizer) {
		before := p.DeepCopy()
		controllerutil.AddFinalizer(p, names.Finalizer)
		if err := r.Client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("adding the finalizer of ClusterPolicy %q: %w", p.Name, err)
		}
	}
	if r.State.SetPolicy(p, gate.Normal) {
		if err := r.Nodes(ctx); err != nil {
			return err
		}
	}
	applyErr := r.applyObjects(ctx, operand.Input{Settings: r.Settings, Policy: p})
	fleet := r.State.Fleet()
	s := fleet.Policy()
	conditions := fleet.Conditions(s, compat.Unsupported(p.Spec), p.Generation)
	s.State = v1.StateReady
	if len(s.BlockedNodes) > 0 || applyErr != nil {
		s.State = v1.StateNotReady
	}
	conditions = append(conditions, degraded(applyErr, p.Generation))
	if err := r.writeStatus(ctx, p, s, conditions); err != nil {
		return err
	}
	return applyErr
}

// degraded says whether the operator could write what it wanted.
func degraded(err error, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAllNodesReady,
		Message: "every object is as the policy wants it", ObservedGeneration: generation,
	}
	if err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonOperatorError, err.Error()
	}
	return c
}

// applyObjects applies what is wanted and deletes what is not.
func (r *Policy) applyObjects(ctx context.Context, in operand.Input) error {
	owner := metav1.OwnerReference{
		APIVersion: v1.GroupVersion().String(), Kind: "ClusterPolicy", Name: in.Policy.Name, UID: in.Policy.UID,
		Controller: new(true), BlockOwnerDeletion: new(false),
	}
	var taken error
	for _, o := range all.Objects(in) {
		respected, err := r.respects(ctx, o)
		taken = errors.Join(taken, err)
		if respected {
			continue
		}
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		if _, err := r.Objects.Apply(ctx, o); err != nil {
			return err
		}
	}
	for _, row := range all.Table() {
		if row.Enabled(in.Policy.Spec) {
			continue
		}
		for _, o := range row.Objects(in) {
			if _, err := r.Objects.Delete(ctx, o); err != nil {
				return err
			}
		}
	}
	return taken
}

// respects says that an object is a RuntimeClass for workloads that somebody else
// made (a distribution does, and people): it stays theirs, here and at the removal. The
// error says that it leads elsewhere than to our handler.
func (r *Policy) respects(ctx context.Context, o client.Object) (bool, error) {
	want, ok := o.(*nodev1.RuntimeClass)
	if !ok || want.Name == names.RuntimeManagement {
		return false, nil
	}
	var is nodev1.RuntimeClass
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), &is); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if is.Labels[names.LabelManagedBy] == names.ManagedBy {
		return false, nil
	}
	if is.Handler != want.Handler {
		return true, fmt.Errorf("RuntimeClass %q is somebody else's and names the handler %q, not %q: Pods of that class get no GPU from this operator; "+
			"delete it, and it is made anew, or set spec.operator.runtimeClass to another name", is.Name, is.Handler, want.Handler)
	}
	return true, nil
}

// writeStatus writes a policy's status when it differs from what is there.
func (r *Policy) writeStatus(ctx context.Context, p *v1.ClusterPolicy, s v1.ClusterPolicyStatus, conditions []metav1.Condition) error {
	s.Namespace, s.ObservedGeneration = r.Settings.Namespace, p.Generation
	s.Conditions = slices.Clone(p.Status.Conditions)
	for _, c := range conditions {
		c.LastTransitionTime = metav1.NewTime(r.Now())
		meta.SetStatusCondition(&s.Conditions, c)
	}
	if equality.Semantic.DeepEqual(p.Status, s) {
		return nil
	}
	before := p.DeepCopy()
	p.Status = s
	if err := r.Client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of ClusterPolicy %q: %w", p.Name, err)
	}
	return nil
}

// dropFinalizer lets a policy go.
func (r *Policy) dropFinalizer(ctx context.Context, p *v1.ClusterPolicy) error {
	if !controllerutil.ContainsFinalizer(p, names.Finalizer) {
		return nil
	}
	before := p.DeepCopy()
	controllerutil.RemoveFinalizer(p, names.Finalizer)
	if err := r.Client.Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of ClusterPolicy %q: %w", p.Name, err)
	}
	return nil
}
