package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	agent "gpu-operator/internal/agent/toolkit"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// NewToolkitCommand returns `gpu-node toolkit`.
func NewToolkitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "toolkit",
		Short: "Make the node's container runtime know NVIDIA's handlers",
		Long: "plan, diff, apply and undo work on any directory as a host's root, without a cluster,\n" +
			"a container runtime or root rights. run and uninstall are what the DaemonSet does.",
	}
	cmd.AddCommand(
		newToolkitRun(),
		newToolkitUninstall(),
		newToolkitOffline("plan", "Print every step and what it would do", (*toolkitOffline).plan),
		newToolkitOffline("diff", "Print only what differs from what is wanted", (*toolkitOffline).diff),
		newToolkitOffline("apply", "Make the host what is wanted", (*toolkitOffline).apply),
		newToolkitOffline("undo", "Take back what the host's ledger remembers", (*toolkitOffline).undo),
	)
	return cmd
}

// toolkitOffline are the flags of the commands that work on a directory.
type toolkitOffline struct {
	root, policy, payload, output   string
	runtimeVersion, effective, unit string
	out                             io.Writer
}

// newToolkitOffline returns one of the offline commands.
func newToolkitOffline(use, short string, run func(*toolkitOffline) error) *cobra.Command {
	o := &toolkitOffline{}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		Example: "  gpu-node toolkit " + use + " --root / --policy clusterpolicy.yaml --runtime-version containerd://2.4.2\n" +
			"  gpu-node toolkit " + use + " --root /mnt/image --policy clusterpolicy.yaml -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.out = cmd.OutOrStdout()
			if o.output != "text" && o.output != "json" {
				return fmt.Errorf("output is %q, want text or json", o.output)
			}
			return run(o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.root, "root", "", "directory that is the host's /")
	f.StringVar(&o.policy, "policy", "", "file with the ClusterPolicy")
	f.StringVar(&o.payload, "payload", names.ToolkitPayloadDir, "directory with the binaries to install")
	f.StringVar(&o.runtimeVersion, "runtime-version", "", "the node's container runtime (node.status.nodeInfo.containerRuntimeVersion)")
	f.StringVar(&o.effective, "effective", "", "file with the output of `containerd config dump` on that host")
	f.StringVar(&o.unit, "unit", "", "the container runtime's unit (default: that of the distribution, else containerd.service)")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	_ = cmd.MarkFlagRequired("root")
	return cmd
}

// report is the JSON form of a command's result.
type report struct {
	Different bool         `json:"different"`
	Changes   plan.Changes `json:"changes"`
	Notes     []string     `json:"notes,omitempty"`
}

// wanted opens the root and computes what it shall be and how it differs.
func (o *toolkitOffline) wanted() (*host.Root, agent.Wanted, plan.Changes, error) {
	if o.policy == "" {
		return nil, agent.Wanted{}, nil, fmt.Errorf("--policy is missing: it names the file with the ClusterPolicy")
	}
	data, err := os.ReadFile(o.policy)
	if err != nil {
		return nil, agent.Wanted{}, nil, fmt.Errorf("reading policy: %w", err)
	}
	options, enabled, err := toolkit.FromPolicy(data)
	if err != nil {
		return nil, agent.Wanted{}, nil, err
	}
	if !enabled {
		return nil, agent.Wanted{}, nil, fmt.Errorf("policy %q sets spec.toolkit.enabled: false, so there is nothing to plan; undo takes back what was done", o.policy)
	}
	daemon := agent.Daemon{Version: o.runtimeVersion}
	if o.effective != "" {
		if daemon.Dump, err = os.ReadFile(o.effective); err != nil {
			return nil, agent.Wanted{}, nil, fmt.Errorf("reading effective configuration: %w", err)
		}
	}
	manifest, err := agent.NewPayload(o.payload).Manifest()
	if err != nil {
		return nil, agent.Wanted{}, nil, err
	}
	root, err := host.OpenRoot(o.root)
	if err != nil {
		return nil, agent.Wanted{}, nil, err
	}
	w, cs, err := o.differ(root, options, daemon, manifest)
	if err != nil {
		_ = root.Close()
		return nil, w, nil, err
	}
	return root, w, cs, nil
}

// differ computes what root shall be and how it differs.
func (o *toolkitOffline) differ(root *host.Root, options toolkit.Options, daemon agent.Daemon, manifest map[string]plan.Source) (agent.Wanted, plan.Changes, error) {
	facts, err := agent.Gather(root, options, daemon)
	if err != nil {
		return agent.Wanted{}, nil, err
	}
	unit := o.unit
	if unit == "" {
		unit = runtimeUnit(root, facts.Distribution)
	}
	o.unit = unit
	w, err := agent.Desire(options, facts, manifest, unit)
	if err != nil {
		return w, nil, err
	}
	cs, err := agent.Diff(root, w)
	return w, cs, err
}

// runtimeUnit is the unit that a distribution runs containerd in: the one of its units
// that the host has.
func runtimeUnit(root *host.Root, distribution string) string {
	units := names.DistributionNamed(distribution).Units
	for _, unit := range units {
		for _, dir := range names.UnitDirs() {
			if root.Exists(path.Join(dir, unit)) {
				return unit
			}
		}
	}
	return units[0]
}

// plan prints all changes.
func (o *toolkitOffline) plan() error {
	root, w, cs, err := o.wanted()
	if err != nil {
		return err
	}
	defer root.Close()
	return o.compare(cs, cs, w.Decision.Notes)
}

// diff prints the changes that do something.
func (o *toolkitOffline) diff() error {
	root, w, cs, err := o.wanted()
	if err != nil {
		return err
	}
	defer root.Close()
	return o.compare(cs, cs.Effective(), w.Decision.Notes)
}

// apply carries the changes out; a restart is the caller's to make and is printed.
func (o *toolkitOffline) apply() error {
	root, w, cs, err := o.wanted()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Apply(cs, host.Options{Payload: agent.NewPayload(o.payload)}); err != nil {
		return err
	}
	return o.print(cs, cs.Effective(), append(w.Decision.Notes, o.restartNote(cs)...))
}

// restartNote reminds of what only the host itself can do: daemons read their
// configuration at start.
func (o *toolkitOffline) restartNote(cs plan.Changes) []string {
	for _, c := range cs.Effective() {
		if c.Kind == plan.KindRestart || c.Drop && (c.Kind == plan.KindEdit || strings.HasSuffix(c.Path, ".toml")) {
			return []string{cmp.Or(o.unit, "the container runtime") + " was not restarted: it reads its configuration at its next start"}
		}
	}
	return nil
}

// undo takes back what the ledger remembers.
func (o *toolkitOffline) undo() error {
	root, err := host.OpenRoot(o.root)
	if err != nil {
		return err
	}
	defer root.Close()
	cs, err := agent.Undo(root)
	if err != nil {
		return err
	}
	if err := root.Apply(cs, host.Options{}); err != nil {
		return err
	}
	return o.print(cs, cs, o.restartNote(cs))
}

// compare prints and reports by the exit status whether anything differs.
func (o *toolkitOffline) compare(all, shown plan.Changes, notes []string) error {
	if err := o.print(all, shown, notes); err != nil {
		return err
	}
	if !all.Settled() {
		return errDifferent
	}
	return nil
}

// print writes changes in the chosen form.
func (o *toolkitOffline) print(all, shown plan.Changes, notes []string) error {
	if o.output == "json" {
		enc := json.NewEncoder(o.out)
		enc.SetIndent("", "  ")
		if shown == nil {
			shown = plan.Changes{}
		}
		return enc.Encode(report{Different: !all.Settled(), Changes: shown, Notes: notes})
	}
	if _, err := io.WriteString(o.out, shown.String()); err != nil {
		return err
	}
	for _, n := range notes {
		if _, err := fmt.Fprintln(o.out, "note: "+n); err != nil {
			return err
		}
	}
	return nil
}
