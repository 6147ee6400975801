package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"time"

	"gpu-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options of a fleet.
type Options struct {
	Nodes int
	// Kubeconfig is the administrator's; Dial reaches the lab's network.
	Kubeconfig string
	Dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	// Kwok is kwok's command without arguments, ready to run inside the lab.
	Kwok func(ctx context.Context, args ...string) (*exec.Cmd, error)
	Out  io.Writer
	Now  func() time.Time
}

// fleet is a running fleet.
type fleet struct {
	Options
	api client.WithWatch

	mu    sync.Mutex
	nodes map[string]*corev1.Node
	gpus  map[string]*v1alpha1.GPUNode
	work  chan string
}

// Run makes the nodes, plays them until ctx ends, and removes them.
func Run(ctx context.Context, o Options) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the administrator's client configuration: %w", err)
	}
	cfg.Dial, cfg.QPS, cfg.Burst = o.Dial, 500, 1000
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	api, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connecting to the lab: %w", err)
	}
	f := &fleet{Options: o, api: api, nodes: map[string]*corev1.Node{}, gpus: map[string]*v1alpha1.GPUNode{}, work: make(chan string, 4*o.Nodes+16)}
	if err := api.List(ctx, &v1alpha1.GPUNodeList{}, client.Limit(1)); err != nil {
		return fmt.Errorf("the cluster does not know GPUNodes (install the operator's chart first): %w", err)
	}
	kwok, err := o.Kwok(ctx, "--kubeconfig="+o.Kubeconfig, "--manage-all-nodes=false", "--manage-nodes-with-label-selector="+Label+"=true",
		"--node-lease-duration-seconds=40")
	if err != nil {
		return err
	}
	kwok.Stdout, kwok.Stderr = io.Discard, io.Discard
	if err := kwok.Start(); err != nil {
		return fmt.Errorf("starting kwok: %w", err)
	}
	defer func() {
		_ = kwok.Process.Kill() // it may have ended by itself
		_ = kwok.Wait()         // its status is our signal's
		f.remove(context.WithoutCancel(ctx))
	}()
	return f.play(ctx)
}

// play makes the nodes and reports for them.
func (f *fleet) play(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.follow(ctx, &corev1.NodeList{}) })
	wg.Go(func() { f.follow(ctx, &v1alpha1.GPUNodeList{}) })
	const reporters = 16
	for range reporters {
		wg.Go(func() { f.report(ctx) })
	}
	begun := f.Now()
	for i := range f.Nodes {
		if err := f.api.Create(ctx, Node(i+1)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making node %d of the fleet: %w", i+1, err)
		}
	}
	fmt.Fprintf(f.Out, "%d nodes made in %s; end the fleet with Ctrl-C\n", f.Nodes, f.Now().Sub(begun).Round(time.Second))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := -1
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if n := f.ready(); n != last {
			fmt.Fprintf(f.Out, "%6s  %d of %d nodes at stage Ready\n", f.Now().Sub(begun).Round(time.Second), n, f.Nodes)
			last = n
		}
	}
}

// ready counts nodes of the fleet at stage Ready.
func (f *fleet) ready() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for name, g := range f.gpus {
		if g.Status.Stage == v1alpha1.StageReady && f.nodes[name] != nil {
			n++
		}
	}
	return n
}

// follow keeps what is known of one kind and wakes the reporters.
func (f *fleet) follow(ctx context.Context, list client.ObjectList) {
	for ctx.Err() == nil {
		stream, err := f.api.Watch(ctx, list)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for e := range stream.ResultChan() {
			f.learn(e.Object)
		}
	}
}

// learn takes one object in.
func (f *fleet) learn(o runtime.Object) {
	f.mu.Lock()
	var name string
	switch o := o.(type) {
	case *corev1.Node:
		if o.Labels[Label] != "" {
			name, f.nodes[o.Name] = o.Name, o
		}
	case *v1alpha1.GPUNode:
		name, f.gpus[o.Name] = o.Name, o
	}
	f.mu.Unlock()
	if name == "" {
		return
	}
	select {
	case f.work <- name:
	default: // so much is waiting that the node comes again anyway
	}
}

// report does what is next for nodes that changed.
func (f *fleet) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-f.work:
			f.mu.Lock()
			n, g := f.nodes[name], f.gpus[name]
			f.mu.Unlock()
			if n == nil {
				continue
			}
			next := Next(n, g)
			if next.Nothing() {
				continue
			}
			if err := f.do(ctx, n, next); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				fmt.Fprintf(f.Out, "node %s: %v\n", name, err)
			}
		}
	}
}

// do writes what an action says.
func (f *fleet) do(ctx context.Context, n *corev1.Node, a Action) error {
	node := map[string]any{}
	if a.Info {
		node["nodeInfo"] = map[string]any{
			"bootID": BootID(n.Name), "kernelVersion": "6.8.0", "osImage": "Debian GNU/Linux 12", "containerRuntimeVersion": "containerd://2.4.2",
			"operatingSystem": "linux", "architecture": "amd64", "kubeletVersion": "v1.37.2", "machineID": n.Name, "systemUUID": n.Name, "kubeProxyVersion": "",
		}
	}
	if a.GPUs != nil {
		q := map[string]any{resGPU: a.GPUs.String()}
		node["allocatable"], node["capacity"] = q, q
	}
	if len(node) > 0 {
		patch, err := json.Marshal(map[string]any{"status": node})
		if err != nil {
			return fmt.Errorf("encoding the status of node %q: %w", n.Name, err)
		}
		if err := f.api.Status().Patch(ctx, n.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
			return err
		}
	}
	for manager, s := range map[string]*v1alpha1.GPUNodeStatus{"nvidia-node-inspector": a.Inspector, "gpu-feature-discovery": a.Discovery} {
		if s == nil {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
		if err != nil {
			return fmt.Errorf("encoding the status of GPUNode %q: %w", n.Name, err)
		}
		u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
		u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("GPUNode"))
		u.SetName(n.Name)
		if err := f.api.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the fleet's nodes and what was scheduled on them.
func (f *fleet) remove(ctx context.Context) {
	const within = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := f.api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{Label: "true"}); err != nil {
		fmt.Fprintf(f.Out, "removing the fleet's nodes: %v\n", err)
		return
	}
	fmt.Fprintln(f.Out, "the fleet's nodes are removed")
}
