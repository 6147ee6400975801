package gpunode

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// crdDir holds the generated definitions of the project's kinds.
const crdDir = "../../../deploy/crds"

// apiServer starts etcd and an API server with the project's kinds. The programs
// are named by the environment, as `make test-api` sets it.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	if os.Getenv("TEST_ASSET_KUBE_APISERVER") == "" {
		t.Skip("TEST_ASSET_KUBE_APISERVER names no API server: run `make test-api`")
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{crdDir}, ErrorIfCRDPathMissing: true}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cfg
}

// status is what an inspector could say.
func status() v1alpha1.GPUNodeStatus {
	return v1alpha1.GPUNodeStatus{
		Facts:      &v1alpha1.NodeFacts{BootID: "b1", Kernel: "6.8", Arch: "amd64"},
		PCIScanned: true,
		Driver:     &v1alpha1.DriverState{Kind: "None"},
		Evidence:   []v1alpha1.StepEvidence{{Step: "container-toolkit", BootID: "b1", Handlers: []string{"nvidia"}}},
		Drift:      "None",
	}
}

func TestClient(t *testing.T) {
	cfg := apiServer(t)
	ctx := t.Context()
	inspector, err := New(cfg, "n1", names.FieldManagerInspector)
	if err != nil {
		t.Fatal(err)
	}
	discovery, err := New(cfg, "n1", names.FieldManagerDiscovery)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := inspector.Get(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("reading a GPUNode that is not there: %v, want not found", err)
	}
	if err := inspector.ApplyStatus(ctx, status()); !apierrors.IsNotFound(err) {
		t.Errorf("writing to a GPUNode that is not there: %v, want not found: an agent creates none", err)
	}
	create(t, inspector)

	want := status()
	if err := inspector.ApplyStatus(ctx, want); err != nil {
		t.Fatal(err)
	}
	labels := &v1alpha1.Discovery{BootID: "b1", Labels: map[string]string{"nvidia.com/gpu.count": "8"}}
	if err := discovery.ApplyStatus(ctx, v1alpha1.GPUNodeStatus{Discovery: labels}); err != nil {
		t.Fatal(err)
	}
	want.Discovery = labels
	live := get(t, inspector)
	if d := cmp.Diff(want, live.Status); d != "" {
		t.Errorf("two writers' status differs (-want +got):\n%s", d)
	}

	// The same again is no write to the API server's storage.
	if err := inspector.ApplyStatus(ctx, status()); err != nil {
		t.Fatal(err)
	}
	if again := get(t, inspector); again.ResourceVersion != live.ResourceVersion {
		t.Errorf("an unchanged status made a new version of the object")
	}

	// What is not said any more is removed, and only that.
	next := status()
	next.Evidence = nil
	if err := inspector.ApplyStatus(ctx, next); err != nil {
		t.Fatal(err)
	}
	next.Discovery = labels
	if d := cmp.Diff(next, get(t, inspector).Status); d != "" {
		t.Errorf("status without evidence differs (-want +got):\n%s", d)
	}
}

func TestWaitGone(t *testing.T) {
	cfg := apiServer(t)
	c, err := New(cfg, "n1", names.FieldManagerInspector)
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(cfg, "n2", names.FieldManagerInspector)
	if err != nil {
		t.Fatal(err)
	}
	create(t, c)
	create(t, other)
	gone := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	since := get(t, c).ResourceVersion
	go func() { gone <- c.WaitGone(ctx, since) }()
	for _, victim := range []*Client{other, c} {
		select {
		case err := <-gone:
			t.Fatalf("returned before its object was deleted: %v", err)
		default:
		}
		if err := victim.api.Delete(t.Context(), victim.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-gone; err != nil {
		t.Errorf("waiting for a deleted object: %v", err)
	}

	create(t, c)
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := c.WaitGone(ended, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with an ended context: %v", err)
	}
}

// create makes a client's object as the operator does.
func create(t *testing.T, c *Client) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": c.name},
	}}
	if _, err := c.api.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// get reads a client's object.
func get(t *testing.T, c *Client) v1alpha1.GPUNode {
	t.Helper()
	live, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return live
}
