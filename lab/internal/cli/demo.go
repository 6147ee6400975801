package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/demo"
)

// demoCommand shows the project's main job from nothing.
func (a *app) demoCommand() *cobra.Command {
	o := demo.Options{Now: time.Now}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "From nothing to a Pod on its GPU: cluster, operator, one ClusterPolicy, gates, nvidia-smi",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.open(cmd.Context(), a.Out)
			if err != nil {
				return err
			}
			if o.Gpulab, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o.Repo, o.Out = l.Repo, a.Out
			return demo.Run(cmd.Context(), o)
		},
	}
	const gpuNodes = 2
	cmd.Flags().IntVar(&o.Nodes, "nodes", gpuNodes, "how many GPU nodes")
	cmd.Flags().StringVar(&o.Machine, "gpus", defaultGPUs, "what each node has")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep a lab that is there instead of starting anew")
	return cmd
}
