package toolkit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
	"gpu-operator/internal/nodeconf/containerd"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// Pass brings the node to what is wanted, proves it and leaves evidence. It writes
// nothing and restarts nothing on a node that is as it should be.
func (a *Agent) Pass(ctx context.Context) error {
	boot, err := a.bootID()
	if err != nil {
		return err
	}
	a.recall(boot)
	e := v1alpha1.StepEvidence{BootID: boot, Phase: phaseApplied}
	err = a.pass(ctx, &e)
	return a.conclude(e, err)
}

// pass does the work of Pass; e collects what was seen on the way.
func (a *Agent) pass(ctx context.Context, e *v1alpha1.StepEvidence) error {
	if err := a.rightSocket(); err != nil {
		return err
	}
	live, err := a.deps.Runtime.Look(ctx)
	if err != nil {
		return err
	}
	e.RuntimeStartedAt, e.Handlers = live.Process.StartedAt, live.Status.Names()
	if live.Status.Name != "containerd" {
		return &fault.Fault{Reason: fault.ReasonRuntimeUnsupported, Where: a.cfg.Options.Socket, Message: fmt.Sprintf("the runtime there is %q; this release configures containerd", live.Status.Name)}
	}
	t, err := a.prepare(ctx, live)
	if err != nil {
		return err
	}
	e.Hash = t.hash
	a.remember(t)
	if err := a.permit(t); err != nil {
		return err
	}
	if err := a.apply(ctx, t.changes); err != nil {
		return err
	}
	driver, specsErr := a.specs(ctx, e.BootID)
	e.DriverVersion = driver
	if t.restart() {
		started, err := a.restartAndProve(ctx, t)
		e.RuntimeRestarts = a.evidence.RuntimeRestarts
		if err != nil {
			return err
		}
		live = started
		e.RuntimeStartedAt, e.Handlers = live.Process.StartedAt, live.Status.Names()
	}
	if missing := t.stale(live); len(missing) > 0 {
		return &fault.Fault{Reason: fault.ReasonHandlersMissing, Where: t.options.Socket, Message: strings.Join(missing, "; ")}
	}
	a.watch.started, a.watch.configs = live.Process.StartedAt, a.configHash()
	if specsErr != nil {
		return specsErr
	}
	e.Ready = true
	return nil
}

// rightSocket refuses a runtime that is not the one which serves the kubelet: a
// node may run two.
func (a *Agent) rightSocket() error {
	kubelet := a.deps.KubeletSocket()
	if kubelet == "" || a.realPath(kubelet) == a.realPath(a.cfg.Options.Socket) {
		return nil
	}
	return &fault.Fault{
		Reason: fault.ReasonRuntimeUnsupported, Where: a.cfg.Options.Socket, Message: "this runtime does not serve the node's kubelet, which uses " + kubelet,
		Remedy: "name that socket and its configuration in spec.toolkit.env: CONTAINERD_SOCKET, CONTAINERD_CONFIG",
	}
}

// realPath returns a path of the host with links resolved, as far as it leads.
func (a *Agent) realPath(p string) string {
	if real, err := a.deps.Root.Resolve(p); err == nil {
		return real
	}
	return p
}

// transaction is one planned change of a node's runtime.
type transaction struct {
	options  toolkit.Options
	handlers []containerd.Handler
	live     Live
	wanted   Wanted
	changes  plan.Changes
	// meant are the options that the daemon will give each handler, by its own word.
	meant map[string]map[string]any
	hash  string
	// forced asks for a restart whatever the daemon knows (uninstall).
	forced bool
}

// prepare plans, and lets the daemon's own binary read the plan before anything is written.
func (a *Agent) prepare(ctx context.Context, live Live) (transaction, error) {
	t := transaction{options: a.cfg.Options, live: live}
	if live.Process.Config != "" && t.options.RuntimeConfig != live.Process.Config {
		t.options.RuntimeConfig = live.Process.Config // the file that the daemon really reads
	}
	f, err := Gather(a.deps.Root, t.options, Daemon{Version: live.Status.Version})
	if err != nil {
		return t, err
	}
	if f.Root.Exists {
		if f.Dump, err = a.deps.Runtime.Dump(ctx, live.Process.Executable, f.Root.Path); err != nil {
			return t, &fault.Fault{Reason: fault.ReasonDryRunFailed, Where: f.Root.Path, Message: "the runtime's own binary cannot read its configuration as it is; nothing was written", Err: err, Remedy: "repair the configuration: the runtime would not survive a restart"}
		}
	}
	unit := live.Unit.Name
	if unit == "" {
		unit = "containerd.service"
	}
	if t.wanted, err = Desire(t.options, f, a.deps.Manifest, unit); err != nil {
		return t, err
	}
	t.handlers = t.wanted.Decision.Handlers
	if t.changes, err = Diff(a.deps.Root, t.wanted); err != nil {
		return t, err
	}
	t.hash = hashOf(t.changes)
	t.meant, err = a.rehearse(ctx, t, f)
	return t, err
}

// hashOf is equal for two plans that put the same on a host.
func hashOf(cs plan.Changes) string {
	var b strings.Builder
	for _, c := range cs {
		if c.To.Type == plan.TypeFile && !c.Drop {
			fmt.Fprintf(&b, "%s %s %o\n", c.Path, c.To.Hash, c.To.Mode)
		}
	}
	return plan.HashBytes([]byte(b.String()))
}

// configChanges are the effective changes of files that the daemon reads.
func (t transaction) configChanges() plan.Changes {
	paths := map[string]bool{}
	for _, s := range t.wanted.Decision.Steps {
		paths[s.Path] = true
	}
	return slices.DeleteFunc(slices.Clone(t.changes), func(c plan.Change) bool {
		return !c.Effective() || !paths[c.Path] && !paths[c.Via]
	})
}

// stale says, handler by handler, in what the running daemon differs from what its
// configuration will mean; nothing when a restart would change nothing.
func (t transaction) stale(live Live) []string {
	var out []string
	for _, h := range t.handlers {
		known, ok := live.Status.Handlers[h.Name]
		if !ok {
			out = append(out, fmt.Sprintf("the running runtime does not know the handler %q", h.Name))
			continue
		}
		for key, want := range t.meant[h.Name] {
			if got := known.Options[key]; fmt.Sprint(got) != fmt.Sprint(want) {
				out = append(out, fmt.Sprintf("the running runtime has %s = %v for the handler %q, its configuration says %v", key, got, h.Name, want))
			}
		}
	}
	slices.Sort(out)
	return out
}

// restart says whether the daemon has to be restarted.
func (t transaction) restart() bool { return t.forced || len(t.stale(t.live)) > 0 }

// permit refuses a transaction that would harm the node, before anything is written.
func (a *Agent) permit(t transaction) error {
	if len(t.configChanges()) > 0 && a.refused == t.hash && a.refusedStart == t.live.Process.StartedAt {
		return a.refusedWhy
	}
	if foreign := foreignConfig(t.configChanges()); foreign != nil {
		if a.drifts.full(a.deps.Now()) {
			return &fault.Fault{
				Reason: fault.ReasonHostFileChanged, Where: foreign.Path,
				Message: fmt.Sprintf("somebody else changed it again, last at %s; it was put right %d times in %s and is left alone now", time.Unix(0, foreign.From.MTime).UTC().Format(time.RFC3339), driftLimit, driftPeriod),
				Remedy:  "let that program write our import, or give it a drop-in directory",
			}
		}
	}
	if !t.restart() {
		return nil
	}
	switch u := t.live.Unit; {
	case t.live.UnitErr != nil:
		return &fault.Fault{Reason: fault.ReasonRestartUnsafe, Where: t.options.Socket, Message: "the runtime's unit cannot be found, so it cannot be restarted", Err: t.live.UnitErr}
	case u.KillsContainers():
		return &fault.Fault{
			Reason: fault.ReasonRestartUnsafe, Where: u.Name, Message: fmt.Sprintf("KillMode is %q: a restart would kill every container of the node; nothing was written", u.KillMode),
			Remedy: "set KillMode=process in the unit, as containerd ships it",
		}
	case a.restarts.full(a.deps.Now()):
		return &fault.Fault{Reason: fault.ReasonRestartLimited, Where: u.Name, Message: fmt.Sprintf("it was restarted %d times in %s; waiting", restartLimit, restartPeriod)}
	}
	return nil
}

// foreignConfig returns a configuration file that somebody else changed.
func foreignConfig(cs plan.Changes) *plan.Change {
	for _, c := range cs {
		if c.Foreign {
			return &c
		}
	}
	return nil
}

// apply carries the changes out under the host's lock.
func (a *Agent) apply(ctx context.Context, cs plan.Changes) error {
	if cs.Settled() {
		return nil
	}
	if foreignConfig(cs) != nil {
		a.drifts.add(a.deps.Now())
	}
	for _, c := range cs.Effective() {
		if c.Kind != plan.KindRestart { // decided by what the daemon knows, not by what changed
			logr.FromContextOrDiscard(ctx).Info("Changing host", "change", c.String())
		}
	}
	return a.deps.Root.Apply(cs, host.Options{Payload: a.deps.Payload})
}

// handlers are the handlers with their binaries.
func handlers(o toolkit.Options) []containerd.Handler {
	return want(o).Handlers
}

// remember keeps what has to be watched, whether or not the pass came to a good end.
func (a *Agent) remember(t transaction) {
	dirs := []string{path.Dir(t.options.Socket), t.options.Dir(), path.Dir(t.options.RuntimeConfig)}
	for _, s := range t.wanted.Decision.Steps {
		dirs = append(dirs, path.Dir(s.Path))
	}
	slices.Sort(dirs)
	a.watch.dirs = slices.Compact(dirs)
	a.watch.options = t.options
}

// configHash is the hash of every file that the daemon reads its configuration
// from; "" when they cannot be read.
func (a *Agent) configHash() string {
	f, err := Gather(a.deps.Root, a.watch.options, Daemon{})
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, file := range append([]containerd.File{f.Root}, f.Imported...) {
		fmt.Fprintf(&b, "%s %t %s\n", file.Path, file.Exists, plan.HashBytes(file.Data))
	}
	return plan.HashBytes([]byte(b.String()))
}

// timeOf returns t for an API object, in whole seconds.
func timeOf(t time.Time) *metav1.Time {
	out := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &out
}
