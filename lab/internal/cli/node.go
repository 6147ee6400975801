package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/lab"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Add, remove, reboot or rebuild a node"}
	cmd.AddCommand(
		a.nodeAddCommand(),
		a.onNode("remove", "Take a node away, with its pods and its Node object", (*lab.Lab).RemoveNode),
		a.onNode("reboot", "Stop a node cleanly and boot it again: new boot id, empty /run", (*lab.Lab).RebootNode),
		a.onNode("rebuild", "Make a node anew from nothing under the same name", (*lab.Lab).RebuildNode),
	)
	return cmd
}

func (a *app) nodeAddCommand() *cobra.Command {
	var w lab.Wish
	cmd := &cobra.Command{
		Use:     "add [NAME]",
		Short:   "Add a node and wait until it is Ready",
		Example: "  gpulab node add\n  gpulab node add big-1 --gpus 8xB200 --driver none",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.open(cmd.Context(), a.Out)
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return l.AddNode(cmd.Context(), name, w)
		},
	}
	wishFlags(cmd, &w)
	return cmd
}

// onNode is a command that does one thing to one node.
func (a *app) onNode(verb, short string, do func(*lab.Lab, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.open(cmd.Context(), a.Out)
			if err != nil {
				return err
			}
			return do(l, cmd.Context(), args[0])
		},
	}
}

func (a *app) execCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "exec NODE -- COMMAND...",
		Short:   "Run a command on a node, as root beside its systemd",
		Example: "  gpulab exec gpu-1 -- systemctl status containerd\n  gpulab exec gpu-1 -- sh",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.execOn(cmd.Context(), args[0], args[1:])
		},
	}
}

// execOn runs argv on a node and passes its exit code on.
func (a *app) execOn(ctx context.Context, name string, argv []string) error {
	l, err := a.open(ctx, a.Err)
	if err != nil {
		return err
	}
	n, err := l.OpenNode(name)
	if err != nil {
		return err
	}
	code, err := n.Exec(ctx, argv, a.In, a.Out, a.Err)
	if err != nil {
		return fmt.Errorf("running %q on node %q: %w", argv[0], name, err)
	}
	if code != 0 {
		return ExitCode(code)
	}
	return nil
}

func (a *app) gpuCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "gpu", Short: "Show or change a node's simulated GPUs"}
	set := &cobra.Command{
		Use:     "set NODE INDEX KEY=VALUE...",
		Short:   "Change the state of one GPU",
		Example: "  gpulab gpu set gpu-1 0 temperature=91\n  gpulab gpu set gpu-1 3 xid=79 lost=true",
		Args:    cobra.MinimumNArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			index, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("GPU index %q is no number (0 is the first GPU)", args[1])
			}
			argv, err := lab.SetGPUCommand(index, args[2:])
			if err != nil {
				return err
			}
			return a.execOn(cmd.Context(), args[0], argv)
		},
	}
	show := &cobra.Command{
		Use:   "show NODE [INDEX]",
		Short: "Print the state of a node's GPUs",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.execOn(cmd.Context(), args[0], lab.ShowGPUCommand(append(args, "")[1]))
		},
	}
	cmd.AddCommand(set, show)
	return cmd
}
