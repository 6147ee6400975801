package cli

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/build"
	"gpu-operator/lab/internal/controlplane"
	"gpu-operator/lab/internal/fleet"
	"gpu-operator/lab/internal/netns"
)

// fleetCommand adds nodes that exist in the API alone.
func (a *app) fleetCommand() *cobra.Command {
	var nodes int
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Add many nodes that exist in the API alone, and play them until Ctrl-C",
		Long: `fleet asks what the operator does in a large cluster: kwok plays the kubelets of
the nodes, a reporter what would run on them. The lab must be up, with the
operator's chart installed.`,
		Example: "  gpulab fleet --nodes 1000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const most = 10000
			if nodes < 1 || nodes > most {
				return fmt.Errorf("--nodes %d: a fleet has 1 to %d nodes", nodes, most)
			}
			l, err := a.open(cmd.Context(), a.Err)
			if err != nil {
				return err
			}
			return fleet.Run(cmd.Context(), fleet.Options{
				Nodes: nodes, Kubeconfig: l.Kubeconfig(), Dial: controlplane.Dialer(netns.Path()), Out: a.Out, Now: time.Now,
				Kwok: func(ctx context.Context, args ...string) (*exec.Cmd, error) {
					return l.Command(ctx, append([]string{"kwok"}, args...), build.Kwok)
				},
			})
		},
	}
	const defaultNodes = 1000
	cmd.Flags().IntVar(&nodes, "nodes", defaultNodes, "how many nodes")
	return cmd
}
