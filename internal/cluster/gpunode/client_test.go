package gpunode

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/api/v1alpha1"
)

// TestBody: what is sent has the writer's fields and nothing else; a counted zero is said.
func TestBody(t *testing.T) {
	c := &Client{name: "n1"}
	tests := map[string]struct {
		status v1alpha1.GPUNodeStatus
		want   map[string]any
	}{
		"no GPU":        {v1alpha1.GPUNodeStatus{PCIScanned: true}, map[string]any{"pciScanned": true, "gpuCount": 0.0}},
		"not looked at": {v1alpha1.GPUNodeStatus{Drift: "None"}, map[string]any{"drift": "None"}},
		"discovery": {
			v1alpha1.GPUNodeStatus{Discovery: &v1alpha1.Discovery{BootID: "b", Labels: map[string]string{"nvidia.com/gpu.count": "8"}}},
			map[string]any{"discovery": map[string]any{"bootID": "b", "labels": map[string]any{"nvidia.com/gpu.count": "8"}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := c.body(tt.status)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUNode", "metadata": map[string]any{"name": "n1"}, "status": tt.want}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("differs (-want +got):\n%s", d)
			}
		})
	}
}
