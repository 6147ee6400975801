package e2e

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// recorder keeps every version of Nodes, GPUNodes and the operator's pods that
// the API server announced, so that order can be judged afterwards. Versions of
// one etcd are one sequence: resource versions order them across kinds.
type recorder struct {
	mu     sync.Mutex
	events []recorded
}

// recorded is one announced version.
type recorded struct {
	version uint64
	kind    watch.EventType
	object  client.Object
}

// record starts a recorder that runs until the test binary's context ends.
func (c *cluster) record(ctx context.Context, t *testing.T) *recorder {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.NewWithWatch(cfg, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &v1alpha1.GPUNodeList{}, &corev1.PodList{}} {
		stream, err := w.Watch(ctx, list)
		if err != nil {
			t.Fatalf("watching %T: %v", list, err)
		}
		go r.follow(stream)
	}
	return r
}

// follow appends what a watch announces until it ends.
func (r *recorder) follow(stream watch.Interface) {
	for e := range stream.ResultChan() {
		obj, ok := e.Object.(client.Object)
		if !ok {
			continue
		}
		v, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
		if err != nil {
			continue
		}
		r.mu.Lock()
		r.events = append(r.events, recorded{version: v, kind: e.Type, object: obj})
		r.mu.Unlock()
	}
}

// history is what was recorded so far, in the order in which it was stored.
func (r *recorder) history() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := append([]recorded(nil), r.events...)
	sort.SliceStable(h, func(i, j int) bool { return h[i].version < h[j].version })
	return h
}

// stepEvidence tells, for the pod of a step, what must have been known of its
// node before it was created; "" when it was.
func stepEvidence(app string, g *v1alpha1.GPUNode) string {
	if g == nil || !g.Status.PCIScanned {
		return "the PCI tree had not been read"
	}
	driver := g.Status.Driver != nil && g.Status.Driver.Ready
	handler := false
	for _, e := range g.Status.Evidence {
		if e.Step == "container-toolkit" && e.Ready && g.Status.Facts != nil && e.BootID == g.Status.Facts.BootID {
			for _, h := range e.Handlers {
				handler = handler || h == names.RuntimeNVIDIA
			}
		}
	}
	switch app {
	case names.DaemonSetDriver:
		if g.Status.GPUCount == 0 {
			return "no GPU had been seen"
		}
	case names.DaemonSetToolkit:
		if !driver {
			return "no driver had answered"
		}
	case names.DaemonSetDevicePlugin, names.DaemonSetFeatureDiscovery, names.DaemonSetExporter:
		if !driver || !handler {
			return fmt.Sprintf("driver ready %v, runtime had reported the handler %v", driver, handler)
		}
	}
	return ""
}

// target is the node that a pod is for: a DaemonSet names it in the pod's
// affinity when it creates the pod, before the scheduler binds it.
func target(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil ||
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return p.Spec.NodeName
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == "metadata.name" && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// violations replays a history and returns every pod that came before the
// evidence of the step before it, and every advertisement of GPUs that came
// before the runtime reported the handler.
func violations(history []recorded) (found []string, podsSeen int) {
	nodes := map[string]*v1alpha1.GPUNode{}
	created := map[string]bool{}
	handlers := map[string]bool{} // by node: the kubelet was told of the handler
	for _, e := range history {
		switch obj := e.object.(type) {
		case *v1alpha1.GPUNode:
			nodes[obj.Name] = obj
		case *corev1.Pod:
			app := obj.Labels[names.LabelApp]
			node := target(obj)
			if obj.Namespace != namespace || node == "" || created[string(obj.UID)] || e.kind == watch.Deleted {
				continue
			}
			created[string(obj.UID)] = true
			podsSeen++
			if missing := stepEvidence(app, nodes[node]); missing != "" && app != names.DaemonSetInspector && app != "gpu-operator" {
				found = append(found, fmt.Sprintf("version %d: pod %s came to %s when %s", e.version, obj.Name, node, missing))
			}
		case *corev1.Node:
			for _, h := range obj.Status.RuntimeHandlers {
				handlers[obj.Name] = handlers[obj.Name] || h.Name == names.RuntimeNVIDIA
			}
			q := obj.Status.Allocatable[names.ResourceGPU]
			if q.Value() > 0 && !handlers[obj.Name] && stepEvidence(names.DaemonSetDevicePlugin, nodes[obj.Name]) != "" {
				found = append(found, fmt.Sprintf("version %d: %s advertised %s GPUs before its runtime reported the handler", e.version, obj.Name, q.String()))
			}
		}
	}
	return found, podsSeen
}

func stepsComeInOrder(t *testing.T, c *cluster) {
	found, pods := violations(c.recorder.history())
	for _, v := range found {
		t.Error(v)
	}
	// Two GPU nodes with inspector, toolkit, device plugin, discovery and exporter
	// each, one of them with a driver pod: fewer means that nothing was recorded.
	if pods < 11 {
		t.Errorf("only %d pods were recorded, want at least 11", pods)
	}
}
