package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/lab"
)

// defaultGPUs is what most GPU servers are.
const defaultGPUs = "8xH100-SXM5-80GB"

// wishFlags adds the flags that say what nodes are.
func wishFlags(cmd *cobra.Command, w *lab.Wish) {
	f := cmd.Flags()
	f.StringSliceVar(&w.GPUs, "gpus", []string{defaultGPUs}, "each node's GPUs, as <count>x<machine model> or none; the last one repeats")
	f.StringSliceVar(&w.Drivers, "driver", []string{lab.DriverHost}, "each node's driver: host (in the OS image) or none (the operator brings it); the last one repeats")
	f.StringSliceVar(&w.Runtimes, "runtime", []string{lab.RuntimeContainerd2}, "each node's container runtime: containerd-2, containerd-1.6 or k3s (a containerd run as k3s does); the last one repeats")
	f.StringToStringVar(&w.Labels, "labels", nil, "node labels (key=value) that the kubelet registers the nodes with")
	f.StringVar(&w.DriverVersion, "driver-version", lab.DefaultDriverVersion, "the version of host drivers")
}

func (a *app) upCommand() *cobra.Command {
	var o lab.UpOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the lab, or complete one that is partly there",
		Example: `  gpulab up
  gpulab up --nodes 3 --gpus 8xH100-SXM5-80GB,4xA100-SXM4-40GB,none
  gpulab up --nodes 2 --driver host,none --runtime containerd-2,containerd-1.6`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.open(cmd.Context(), a.Out)
			if err != nil {
				return err
			}
			return l.Up(cmd.Context(), o)
		},
	}
	const defaultNodes = 2
	cmd.Flags().IntVar(&o.Wish.Nodes, "nodes", defaultNodes, "how many nodes the lab has at least (0: the control plane alone)")
	cmd.Flags().BoolVar(&o.SkipProduct, "skip-product", false, "do not build the product's images (for work on the lab alone)")
	wishFlags(cmd, &o.Wish)
	return cmd
}

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the lab and all that it left on the machine (the cache of built programs stays)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.open(cmd.Context(), a.Out)
			if err != nil {
				return err
			}
			return l.Down(cmd.Context())
		},
	}
}

func (a *app) statusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the control plane's processes and the nodes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.open(cmd.Context(), a.Err)
			if err != nil {
				return err
			}
			s, err := l.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == outputJSON {
				return printJSON(a.Out, s)
			}
			return printStatus(a.Out, s)
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// outputJSON is the only machine-readable output.
const outputJSON = "json"

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", `"json" for machines (default: text)`)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *output != "" && *output != outputJSON {
			return fmt.Errorf("-o %q: must be json, or left out for text", *output)
		}
		return nil
	}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}

// printStatus prints the lab at a glance.
func printStatus(out io.Writer, s lab.Status) error {
	if !s.Up {
		fmt.Fprintln(out, "the lab is not up (`gpulab up` starts it)")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tPID\tLOG")
	for _, p := range s.Processes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, orDash(p.PID), p.Log)
	}
	if len(s.Nodes) > 0 {
		fmt.Fprintln(w, "\nNODE\tREADY\tIP\tGPUS\tDRIVER\tRUNTIME\tPID 1")
	}
	for _, n := range s.Nodes {
		ready := n.Ready
		if ready == "" {
			ready = "-"
		}
		driver := n.Driver
		if n.DriverVersion != "" {
			driver += " " + n.DriverVersion
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, ready, n.IP, n.Hardware(), driver, n.Runtime, orDash(n.Leader))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	return nil
}

// orDash shows a process id, or "-" for none.
func orDash(pid int) string {
	if pid == 0 {
		return "-"
	}
	return fmt.Sprint(pid)
}
