package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
)

// namespace is where the chart is installed.
const namespace = "gpu-operator"

// pollEvery is how often a condition is looked at while waiting for it.
const pollEvery = 500 * time.Millisecond

// cluster is one lab cluster under test: API access and the lab's own command.
type cluster struct {
	client.Client

	gpulab string
	// recorder keeps what the API server announced since before the installation.
	recorder *recorder
	// life ends with the test binary: what runs beside all stories ends with it.
	life context.Context //nolint:containedctx // one field for one goroutine's life, set once
	// diffs are the host-diffs of nodes as they were when first ready.
	diffs map[string]string
	// plain are the plain Pods' containers by Pod name.
	plain map[string]string
}

// newCluster connects to the lab that KUBECONFIG and GPULAB name; it fails the
// test when one is missing, since a skipped story proves nothing.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	gpulab := os.Getenv("GPULAB")
	if gpulab == "" || os.Getenv("KUBECONFIG") == "" {
		t.Fatal("GPULAB and KUBECONFIG must name the lab's command and cluster: run the stories by `make test-e2e`")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatalf("reading kubeconfig: %v", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nvidiav1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatalf("building scheme: %v", err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	return &cluster{Client: c, gpulab: gpulab, life: t.Context(), diffs: map[string]string{}}
}

// lab runs the lab's command and returns its standard output.
func (c *cluster) lab(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.tryLab(t.Context(), args...)
	if err != nil {
		t.Fatalf("gpulab %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// tryLab is lab for commands whose failure is part of the story.
func (c *cluster) tryLab(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.gpulab, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return stdout.String(), nil
}

// eventually waits until probe returns "" and fails the test with its last
// answer, which says what is still missing, when the deadline passes.
func (c *cluster) eventually(t *testing.T, deadline time.Duration, what string, probe func(context.Context) string) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		missing := probe(ctx)
		if missing == "" {
			t.Logf("%s: after %s", what, time.Since(start).Round(100*time.Millisecond))
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %s\n%s", what, deadline, missing, c.report(t))
		case <-tick.C:
		}
	}
}

// report is what a person would look at first when a story fails.
func (c *cluster) report(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "nodes", "-o", "wide"}, {"get", "gpunodes", "-o", "wide"},
		{"get", "pods", "-A", "-o", "wide"}, {"get", "clusterpolicy", "-o", "yaml"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, err := c.tryLab(context.WithoutCancel(t.Context()), append([]string{"kubectl", "--"}, args...)...)
		fmt.Fprintf(&b, "--- kubectl %s (%v)\n%s\n", strings.Join(args, " "), err, tail(out, 60))
	}
	return b.String()
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// apply creates or replaces obj as a person would with kubectl apply.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), c.gpulab, "kubectl", "--", "apply", "-f", "-")
	cmd.Stdin, cmd.Stderr = strings.NewReader(manifest), &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("applying: %v: %s\n%s", err, stderr.String(), manifest)
	}
}

// applyObject is apply for a typed object.
func (c *cluster) applyObject(t *testing.T, obj client.Object) {
	t.Helper()
	data, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatalf("encoding %s: %v", obj.GetName(), err)
	}
	c.apply(t, string(data))
}

// node returns the Node of that name.
func (c *cluster) node(ctx context.Context, name string) (corev1.Node, error) {
	var n corev1.Node
	err := c.Get(ctx, client.ObjectKey{Name: name}, &n)
	return n, err
}

// gpuNode returns the GPUNode of that name.
func (c *cluster) gpuNode(ctx context.Context, name string) (v1alpha1.GPUNode, error) {
	var g v1alpha1.GPUNode
	err := c.Get(ctx, client.ObjectKey{Name: name}, &g)
	return g, err
}
