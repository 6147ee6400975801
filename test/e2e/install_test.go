package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1 "gpu-operator/api/v1"
)

// policyName is the one ClusterPolicy of the chart.
const policyName = "cluster-policy"

// policy returns the chart's ClusterPolicy.
func (c *cluster) policy(ctx context.Context) (nvidiav1.ClusterPolicy, error) {
	var p nvidiav1.ClusterPolicy
	err := c.Get(ctx, client.ObjectKey{Name: policyName}, &p)
	return p, err
}

// values are the chart values of the lab: where the simulated kernel shows its
// files, and the stand-in driver for nodes without one in their OS image.
const values = `
hostRoots:
  sysfs: /run/gpusim/sys
  procfs: /run/gpusim/proc
driver:
  enabled: true
  repository: gpu-operator.local
  image: driver
  version: "550.163.01"
`

// installOperator installs the chart before anything else is told; the recorder
// runs from before the first object of it.
func installOperator(t *testing.T, c *cluster) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	c.applyKnownPlainPods(t)
	// The recorder watches GPUNodes from the start, so their definition comes first.
	for _, crd := range []string{"nvidia.com_clusterpolicies.yaml", "nvidia.com_gpunodes.yaml"} {
		c.lab(t, "kubectl", "--", "apply", "--server-side", "-f", filepath.Join(root, "deploy/crds", crd))
	}
	c.lab(t, "kubectl", "--", "wait", "--for=condition=Established", "--timeout=60s", "crd/gpunodes.nvidia.com", "crd/clusterpolicies.nvidia.com")
	c.recorder = c.record(c.life, t)
	c.lab(t, "helm", "--", "install", "gpu-operator", filepath.Join(root, "deploy/chart/gpu-operator"),
		"--namespace", namespace, "--create-namespace", "--skip-crds", "--values", file)
	c.eventually(t, 2*time.Minute, "the operator runs", func(ctx context.Context) string {
		var d appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gpu-operator"}, &d); err != nil {
			return err.Error()
		}
		if d.Status.ReadyReplicas < 1 {
			return fmt.Sprintf("%d replicas ready", d.Status.ReadyReplicas)
		}
		return ""
	})
}
