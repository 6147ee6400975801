package toolkit

import (
	"fmt"
	"path"
	"slices"

	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/containerd"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// Step is the name of this agent's step in evidence and ledger.
const Step = "container-toolkit"

// Wanted is what a node shall look like, and what is special about it.
type Wanted struct {
	// Steps of the host, parents included.
	Steps []plan.Step
	// Decision about the runtime's configuration.
	Decision containerd.Decision
}

// Desire computes the wanted host from options, facts and payload. unit is the
// runtime's systemd unit. Pure but for its arguments.
func Desire(o toolkit.Options, f containerd.Facts, payload map[string]plan.Source, unit string) (Wanted, error) {
	decision, err := containerd.Decide(f, want(o))
	if err != nil {
		return Wanted{}, fmt.Errorf("deciding the runtime's configuration: %w", err)
	}
	steps, err := toolkit.Desire(o, payload, toolkit.Runtime{NativeCDI: decision.NativeCDI, LowLevel: decision.LowLevel})
	if err != nil {
		return Wanted{}, fmt.Errorf("deciding the toolkit's files: %w", err)
	}
	restart := plan.Step{Kind: plan.KindRestart, Path: unit, Why: "the daemon reads its configuration at start only"}
	for _, s := range decision.Steps {
		restart.Because = append(restart.Because, s.Path)
	}
	steps = slices.Concat(steps, decision.Steps, []plan.Step{restart})
	for i := range steps {
		steps[i].Group = Step
	}
	return Wanted{Steps: plan.WithParents(steps), Decision: decision}, nil
}

// want is what a policy's options ask of the runtime's configuration.
func want(o toolkit.Options) containerd.Want {
	w := containerd.Want{
		DropIn: o.DropIn,
	}
	for i, name := range names.WorkloadHandlers(o.Handler) {
		w.Handlers = append(w.Handlers, containerd.Handler{Name: name, Binary: path.Join(o.Dir(), toolkit.BinaryRuntime), Annotations: true, Alias: i > 0})
	}
	w.Handlers = append(w.Handlers, containerd.Handler{Name: names.RuntimeManagement, Binary: path.Join(o.Dir(), toolkit.BinaryRuntimeManagement)})
	if o.SetAsDefault {
		w.Default = o.Handler
	}
	return w
}

// Diff looks at the host and returns what separates it from what is wanted.
func Diff(root *host.Root, w Wanted) (plan.Changes, error) {
	ledger, err := root.ReadLedger()
	if err != nil {
		return nil, err
	}
	seen, err := root.Observe(plan.Keys(w.Steps, ledger))
	if err != nil {
		return nil, err
	}
	return plan.Diff(w.Steps, seen, ledger, plan.Options{Editors: containerd.Editors(), Group: Step})
}

// Undo looks at the host and returns what takes back everything of this agent.
func Undo(root *host.Root) (plan.Changes, error) {
	ledger, err := root.ReadLedger()
	if err != nil {
		return nil, err
	}
	ours := ledger
	ours.Entries = slices.DeleteFunc(slices.Clone(ledger.Entries), func(e plan.Entry) bool { return e.Group != Step })
	seen, err := root.Observe(plan.Keys(nil, ours))
	if err != nil {
		return nil, err
	}
	return plan.Undo(ours, seen, containerd.Editors())
}
