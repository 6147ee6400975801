package toolkit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/cdi"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// uninstallPause is the pause between two looks while Pods still use the handlers.
const uninstallPause = 5 * time.Second

// Uninstall takes back everything that this agent did to the node, when no sandbox
// needs it any more: first the runtime's configuration, with one restart and a
// proof that it still answers, then the binaries. It leaves evidence of phase
// Undone and returns when that is done or ctx ends.
func (a *Agent) Uninstall(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	since := a.deps.Now()
	retry := firstRetry
	for ctx.Err() == nil {
		done, err := a.uninstallOnce(ctx, since)
		if done {
			log.Info("Host is as it was before")
			return nil
		}
		pause := uninstallPause
		if err != nil && fault.ReasonOf(err, "") != fault.ReasonWaitingForPods {
			pause, retry = retry, min(2*retry, lastRetry)
		}
		log.Info("Uninstall is not done", "why", fmt.Sprint(err))
		a.deps.Pause(ctx, pause)
	}
	return nil
}

// uninstallOnce makes one attempt and records it as evidence.
func (a *Agent) uninstallOnce(ctx context.Context, since time.Time) (bool, error) {
	boot, err := a.bootID()
	if err != nil {
		return false, err
	}
	a.recall(boot)
	e := v1alpha1.StepEvidence{BootID: boot, Phase: phaseUndone}
	err = a.uninstall(ctx, since, &e)
	e.Ready = err == nil
	err = a.conclude(e, err)
	return err == nil, err
}

// uninstall does the work of one attempt.
func (a *Agent) uninstall(ctx context.Context, since time.Time, e *v1alpha1.StepEvidence) error {
	live, err := a.deps.Runtime.Look(ctx)
	if err != nil {
		return err
	}
	e.RuntimeStartedAt, e.Handlers = live.Process.StartedAt, live.Status.Names()
	byName, byDefault, err := a.users(ctx)
	if err != nil {
		return err
	}
	if len(byName) > 0 {
		return a.waiting(since, "still use the handlers", byName)
	}
	cs, err := Undo(a.deps.Root)
	if err != nil {
		return err
	}
	config, rest := a.split(cs)
	if err := a.safeToRestart(live); err != nil {
		return err
	}
	if len(byDefault) > 0 {
		rest = a.withoutLauncher(rest)
	}
	if finds(live) {
		// At each start the distribution looks for our binary, and must not find it.
		config, rest = append(config, rest...), nil
	}
	if err := a.take(ctx, config); err != nil {
		return err
	}
	if a.knows(live) {
		if err := a.restartPlain(ctx, live, cs, e); err != nil {
			return err
		}
	}
	if err := a.take(ctx, rest); err != nil {
		return err
	}
	e.Message = leftovers(cs)
	if err := a.dropSpecs(); err != nil {
		return err
	}
	if len(byDefault) > 0 {
		return a.waiting(since, "were started while our handler was the default, and keep its launcher, which is plain runc now", byDefault)
	}
	return nil
}

// restartPlain restarts the runtime without our configuration and proves that it
// answers and has forgotten our handlers.
func (a *Agent) restartPlain(ctx context.Context, live Live, cs plan.Changes, e *v1alpha1.StepEvidence) error {
	unit := live.Unit.Name
	live, err := a.restart(context.WithoutCancel(ctx), live, reloads(live, cs))
	e.RuntimeRestarts = a.evidence.RuntimeRestarts
	if err != nil {
		return &fault.Fault{Reason: fault.ReasonRestartFailed, Where: unit, Message: "the runtime does not answer after our configuration was taken out", Err: err, Remedy: "read the unit's log on the node"}
	}
	e.RuntimeStartedAt, e.Handlers = live.Process.StartedAt, live.Status.Names()
	found := finds(live) && a.deps.Root.Exists(path.Join(a.cfg.Options.Dir(), toolkit.BinaryRuntime)) // kept for containers that need it
	if a.knows(live) && !found && !slices.ContainsFunc(cs, func(c plan.Change) bool { return c.Foreign }) {
		return &fault.Fault{Reason: fault.ReasonHandlersMissing, Where: unit, Message: "the runtime still knows our handlers although our configuration was taken out", Remedy: "somebody else's configuration defines them: " + strings.Join(live.Status.Names(), ", ")}
	}
	return nil
}

// users returns the Pods that were made under our handlers, and those that run our
// launcher because our handler was the default: a container whose runtime is gone
// can be neither stopped nor removed.
func (a *Agent) users(ctx context.Context) (byName, byDefault []string, err error) {
	sandboxes, err := a.deps.Runtime.Sandboxes(ctx, a.cfg.Options.Handlers(), a.cfg.Options.Dir())
	for _, s := range sandboxes {
		if s.Handler == "" {
			byDefault = append(byDefault, s.Pod)
		} else {
			byName = append(byName, s.Pod)
		}
	}
	return byName, byDefault, err
}

// waiting is the fault of Pods that are in the way.
func (a *Agent) waiting(since time.Time, what string, pods []string) error {
	message := fmt.Sprintf("%d Pods %s: %s", len(pods), what, strings.Join(pods, ", "))
	if waited := a.deps.Now().Sub(since); waited > a.cfg.UninstallDeadline {
		message = "waiting for longer than " + a.cfg.UninstallDeadline.String() + ": " + message
	}
	return &fault.Fault{Reason: fault.ReasonWaitingForPods, Message: message, Remedy: "delete them; nothing is taken away under a running container"}
}

// withoutLauncher leaves the launcher and the directories above it where they are.
// Without NVIDIA's runtime beside it, it is plain runc.
func (a *Agent) withoutLauncher(cs plan.Changes) plan.Changes {
	launcher := path.Join(a.cfg.Options.Dir(), toolkit.BinaryRuntime)
	return slices.DeleteFunc(slices.Clone(cs), func(c plan.Change) bool {
		return c.Path == launcher || strings.HasPrefix(launcher, c.Path+"/")
	})
}

// knows says whether the running daemon knows a handler that runs one of our binaries.
func (a *Agent) knows(live Live) bool {
	for _, h := range live.Status.Handlers {
		if binary, _ := h.Options["BinaryName"].(string); path.Dir(binary) == a.cfg.Options.Dir() {
			return true
		}
	}
	return false
}

// finds says whether the running daemon's distribution looks for our binaries at each start.
func finds(live Live) bool {
	d, _ := names.DistributionOf(live.Process.Config)
	return d.Finds
}

// safeToRestart refuses an undo whose restart would kill the node's containers.
func (a *Agent) safeToRestart(live Live) error {
	if !a.knows(live) {
		return nil
	}
	return a.permit(transaction{options: a.cfg.Options, live: live, handlers: handlers(a.cfg.Options), meant: nil, forced: true})
}

// take carries undo changes out.
func (a *Agent) take(ctx context.Context, cs plan.Changes) error {
	for _, c := range cs.Effective() {
		logr.FromContextOrDiscard(ctx).Info("Taking back", "change", c.String())
	}
	if len(cs) == 0 {
		return nil
	}
	return a.deps.Root.Apply(cs, host.Options{})
}

// split parts an undo into what the daemon reads, which is whatever does not lie
// in the directory of binaries, and the rest. Directories come with the rest: they
// are empty only afterwards.
func (a *Agent) split(cs plan.Changes) (config, rest plan.Changes) {
	for _, c := range cs {
		if c.Kind == plan.KindDirectory || strings.HasPrefix(c.Path, a.cfg.Options.Dir()+"/") {
			rest = append(rest, c)
		} else {
			config = append(config, c)
		}
	}
	return config, rest
}

// leftovers says what was left on the host and why; "" when nothing was.
func leftovers(cs plan.Changes) string {
	var out []string
	for _, c := range cs {
		if c.Foreign {
			out = append(out, c.Path+" "+c.Note)
		}
	}
	return strings.Join(out, "; ")
}

// specPaths are the paths of our CDI specs.
func specPaths() []string {
	var out []string
	for _, s := range cdi.Specs() {
		out = append(out, s.Path)
	}
	return out
}
