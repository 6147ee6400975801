package node

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit statuses of every subcommand that compares.
const (
	// ExitSame: nothing differs, or the work was done.
	ExitSame = 0
	// ExitDifferent: something differs.
	ExitDifferent = 1
	// ExitError: it could not be found out or done.
	ExitError = 2
)

// errDifferent ends a command with ExitDifferent without a message.
var errDifferent = errors.New("different")

// NewCommand returns the root command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "gpu-node",
		Short:         "What the GPU operator does on a node",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, sub := range commands() {
		cmd.AddCommand(sub())
	}
	return cmd
}

// commands is the table of subcommands.
func commands() []func() *cobra.Command {
	return []func() *cobra.Command{
		NewInspectCommand,
		NewDriverCommand,
		NewToolkitCommand,
		NewDevicePluginCommand,
		NewFeatureDiscoveryCommand,
		NewExporterCommand,
	}
}

// Execute runs the command and returns the exit status; errors go to the
// command's error stream.
func Execute(cmd *cobra.Command) int {
	err := cmd.Execute()
	switch {
	case err == nil:
		return ExitSame
	case errors.Is(err, errDifferent):
		return ExitDifferent
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "gpu-node: "+err.Error())
	return ExitError
}
