package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/hostdiff"
)

// exitDiffers is what a comparison exits with that found a difference.
const exitDiffers = ExitCode(1)

func (a *app) hostDiffCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "host-diff NODE",
		Short: "List every host file of a node that anything changed since its birth",
		Long: `host-diff compares the node's host files now with those at its birth and prints
"+" for new, "~" for changed and "-" for removed ones. What an OS writes by itself
(logs, machine id) and what lives in memory (/run, /dev, /tmp) is left out.
Exit code: 0 same, 1 different, 2 error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.open(cmd.Context(), a.Err)
			if err != nil {
				return err
			}
			n, err := l.OpenNode(args[0])
			if err != nil {
				return err
			}
			changes, err := n.HostDiff()
			if err != nil {
				return fmt.Errorf("comparing the host files of %q: %w", args[0], err)
			}
			if output == outputJSON {
				if changes == nil {
					changes = []hostdiff.Change{} // An empty list, not null.
				}
				err = printJSON(a.Out, changes)
			} else {
				for _, c := range changes {
					fmt.Fprintln(a.Out, c)
				}
			}
			if err == nil && len(changes) > 0 {
				return exitDiffers
			}
			return err
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
