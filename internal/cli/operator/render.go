package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/compat"
	"gpu-operator/internal/controller"
	"gpu-operator/internal/gate"
	"gpu-operator/internal/operand"
	"gpu-operator/internal/operand/all"
	"gpu-operator/internal/status"
)

// newRenderCommand prints what the operator would create.
func newRenderCommand() *cobra.Command {
	o := runOptions{}
	var file, nodes string
	cmd := &cobra.Command{
		Use:   "render -f clusterpolicy.yaml",
		Short: "Print the objects of a ClusterPolicy, without a cluster",
		Long: `Prints the same objects that the operator applies, as YAML documents. With --nodes
(the output of "kubectl get nodes,gpunodes -o json") also, as comments, what the
gates of each node decide.`,
		Example: "  gpu-operator render -f docs/examples/clusterpolicy.yaml\n  gpu-operator render -f policy.yaml --nodes nodes.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.settings.Image == "" {
				o.settings.Image = "gpu-node"
			}
			if err := o.complete(); err != nil {
				return err
			}
			return render(cmd.OutOrStdout(), o.settings, file, nodes)
		},
	}
	o.addSettings(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "file of the ClusterPolicy")
	cmd.Flags().StringVar(&nodes, "nodes", "", "file with Nodes and GPUNodes as a JSON list")
	_ = cmd.MarkFlagRequired("file") // fails only for a flag that does not exist
	return cmd
}

// readPolicy reads a ClusterPolicy from a file.
func readPolicy(file string) (*v1.ClusterPolicy, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the ClusterPolicy: %w", err)
	}
	var p v1.ClusterPolicy
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		return nil, fmt.Errorf("reading the ClusterPolicy in %q: %w", file, err)
	}
	if p.Kind != "ClusterPolicy" || p.APIVersion != v1.GroupVersion().String() {
		return nil, fmt.Errorf("%q holds a %s of %s, not a ClusterPolicy of %s", file, p.Kind, p.APIVersion, v1.GroupVersion())
	}
	return &p, nil
}

// render prints the objects and, with a file of nodes, their gates.
func render(out io.Writer, s operand.Settings, file, nodes string) error {
	p, err := readPolicy(file)
	if err != nil {
		return err
	}
	for _, path := range compat.Unsupported(p.Spec) {
		fmt.Fprintf(out, "# %s is set and not implemented\n", path)
	}
	for _, o := range all.Objects(operand.Input{Settings: s, Policy: p}) {
		data, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", o.GetName(), err)
		}
		fmt.Fprintf(out, "---\n%s", data)
	}
	if nodes == "" {
		return nil
	}
	return renderNodes(out, p, nodes)
}

// renderNodes prints what the gates of each node decide.
func renderNodes(out io.Writer, p *v1.ClusterPolicy, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading nodes: %w", err)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("reading nodes in %q: %w", file, err)
	}
	gpus := map[string]*v1alpha1.GPUNode{}
	var all []*corev1.Node
	for _, raw := range list.Items {
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return fmt.Errorf("reading nodes in %q: %w", file, err)
		}
		switch kind.Kind {
		case "GPUNode":
			var g v1alpha1.GPUNode
			if err := json.Unmarshal(raw, &g); err != nil {
				return fmt.Errorf("reading a GPUNode in %q: %w", file, err)
			}
			gpus[g.Name] = &g
		case "Node":
			var n corev1.Node
			if err := json.Unmarshal(raw, &n); err != nil {
				return fmt.Errorf("reading a Node in %q: %w", file, err)
			}
			all = append(all, &n)
		}
	}
	fmt.Fprintln(out, "---")
	for _, n := range all {
		facts := controller.GateFacts(controller.GatePolicy(p, gate.Normal), n, gpus[n.Name])
		decisions := gate.Evaluate(facts)
		said := status.OfNode(facts, decisions)
		fmt.Fprintf(out, "# %s: stage %s: %s: %s\n", n.Name, said.Stage, said.Reason, said.Message)
		for _, d := range decisions {
			fmt.Fprintf(out, "#   %-22s %-12s %s: %s\n", d.Step, d.State, d.Reason, d.Message)
		}
	}
	return nil
}
