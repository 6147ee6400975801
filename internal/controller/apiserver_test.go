package controller

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"gpu-operator/internal/names"
)

// installFile is what a person applies without Helm.
const installFile = "../../deploy/install.yaml"

// apiServer is a real API server with the project's manifests applied, the
// Deployment and the ClusterPolicy left out.
type apiServer struct {
	client.Client

	config *rest.Config
}

// newAPIServer starts etcd and an API server. The programs are named by the
// environment, as `make test-api` sets it.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	if os.Getenv("TEST_ASSET_KUBE_APISERVER") == "" {
		t.Fatal("TEST_ASSET_KUBE_APISERVER names no API server: run `make test-api`")
	}
	env := &envtest.Environment{}
	cfg, err := env.Start()
	if err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	a := &apiServer{Client: c, config: cfg}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.DefaultNamespace}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	a.install(t)
	return a
}

// install applies deploy/install.yaml and waits until its kinds are served.
func (a *apiServer) install(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(installFile)
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var u unstructured.Unstructured
		err := documents.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Object) == 0 || u.GetKind() == "Deployment" || u.GetKind() == "ClusterPolicy" {
			continue
		}
		if err := a.Create(t.Context(), &u); err != nil {
			t.Fatalf("applying %s %s of %s: %v", u.GetKind(), u.GetName(), installFile, err)
		}
	}
	a.eventually(t, "the kinds are served", func(ctx context.Context) string {
		var list unstructured.UnstructuredList
		list.SetAPIVersion("nvidia.com/v1alpha1")
		list.SetKind("GPUNodeList")
		if err := a.List(ctx, &list); err != nil {
			return err.Error()
		}
		list.SetAPIVersion("nvidia.com/v1")
		list.SetKind("ClusterPolicyList")
		if err := a.List(ctx, &list); err != nil {
			return err.Error()
		}
		return ""
	})
}

// eventually waits until probe answers "".
func (a *apiServer) eventually(t *testing.T, what string, probe func(context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := probe(ctx)
		if missing == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not in time: %s", what, missing)
		case <-tick.C:
		}
	}
}
