package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/cluster/object"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// nodesAtOnce is how many nodes are reconciled side by side: one waits for the API
// server most of its time.
const nodesAtOnce = 8

// Options of the operator's process.
type Options struct {
	Settings       operand.Settings
	LeaderElection bool
	// MetricsAddr and HealthAddr are listened on; "0" is off.
	MetricsAddr, HealthAddr string
	// StatusEvery bounds how often a policy's status is computed again.
	StatusEvery time.Duration
	Now         func() time.Time
}

// Scheme knows every kind that the operator reads or writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return s, nil
}

// cacheOptions keep of each kind what is used, and of namespaced kinds the
// operator's namespace.
func cacheOptions(namespace string) cache.Options {
	own := map[string]cache.Config{namespace: {}}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:      {Transform: slimNode},
			&appsv1.DaemonSet{}: {Namespaces: own},
			&corev1.Service{}:   {Namespaces: own},
		},
	}
}

// Run runs the operator until ctx ends.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	// The API server's own fairness bounds us; a bound of our own only makes nodes wait.
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions(o.Settings.Namespace),
		Metrics:                       server.Options{BindAddress: o.MetricsAddr},
		HealthProbeBindAddress:        o.HealthAddr,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              "gpu-operator.nvidia.com",
		LeaderElectionNamespace:       o.Settings.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: new(true)}, // an operator may run again in the same process
	})
	if err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	if err := Setup(mgr, o); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr.Start(ctx)
}

// Setup registers both reconcilers with a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	changed := make(chan struct{}, 1)
	nodes := make(chan event.GenericEvent, 1024)
	wake := make(chan event.GenericEvent, 1)
	state := NewState(changed)
	if err := mgr.Add(&pacer{in: changed, out: wake, every: o.StatusEvery}); err != nil {
		return fmt.Errorf("adding the pacer: %w", err)
	}
	recorder := mgr.GetEventRecorder("gpu-operator")
	node := &Node{Client: mgr.GetClient(), Events: recorder, State: state, Now: o.Now}
	if err := ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&corev1.Node{}, forNode()).
		Watches(&v1alpha1.GPUNode{}, &handler.EnqueueRequestForObject{}, forGPUNode()).
		WatchesRawSource(source.Channel(nodes, &handler.EnqueueRequestForObject{})).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: nodesAtOnce}).
		Complete(node); err != nil {
		return fmt.Errorf("adding the node controller: %w", err)
	}
	policy := &Policy{
		Client: mgr.GetClient(), Objects: object.NewApplier(mgr.GetClient()), Events: recorder, State: state,
		Settings: o.Settings, Nodes: lookAtAll(mgr.GetClient(), nodes), Now: o.Now,
	}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "policy"}}}
	})
	if err := ctrl.NewControllerManagedBy(mgr).Named("policy").
		Watches(&v1.ClusterPolicy{}, one, forPolicy()).
		Watches(&appsv1.DaemonSet{}, one, forOwned()).
		Watches(&corev1.Service{}, one, forOwned()).
		Watches(&nodev1.RuntimeClass{}, one, forClass()).
		WatchesRawSource(source.Channel(wake, one)).
		Complete(policy); err != nil {
		return fmt.Errorf("adding the policy controller: %w", err)
	}
	return nil
}

// lookAtAll asks for a look at every node.
func lookAtAll(c client.Client, out chan<- event.GenericEvent) func(context.Context) error {
	return func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		for i := range nodes.Items {
			select {
			case out <- event.GenericEvent{Object: &nodes.Items[i]}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

// pacer passes wakes on, at most one in a span of time.
type pacer struct {
	in    <-chan struct{}
	out   chan<- event.GenericEvent
	every time.Duration
}

// Start implements manager.Runnable.
func (p *pacer) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.in:
		}
		select {
		case p.out <- event.GenericEvent{Object: &v1.ClusterPolicy{}}:
		case <-ctx.Done():
			return nil
		}
		pause := time.NewTimer(p.every)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *pacer) NeedLeaderElection() bool { return true }

// slimNode keeps of a Node what gates need: a cache of whole Nodes would grow with
// images and addresses.
func slimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	slim := &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: *n.ObjectMeta.DeepCopy()}
	slim.ManagedFields = nil
	slim.Annotations = nil
	if v, has := n.Annotations[names.AnnotationGates]; has {
		slim.Annotations = map[string]string{names.AnnotationGates: v}
	}
	slim.Status.NodeInfo.BootID = n.Status.NodeInfo.BootID
	slim.Status.RuntimeHandlers = n.Status.RuntimeHandlers
	for name, q := range n.Status.Allocatable {
		if len(name) > len(names.Group) && string(name)[:len(names.Group)+1] == names.Group+"/" {
			if slim.Status.Allocatable == nil {
				slim.Status.Allocatable = corev1.ResourceList{}
			}
			slim.Status.Allocatable[name] = q.DeepCopy()
		}
	}
	return slim, nil
}
