package toolkit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// Times of a restart.
const (
	// restartTimeout bounds systemd's job: stop, start and readiness of the daemon.
	restartTimeout = 90 * time.Second
	// answerTimeout bounds how long the daemon may take to answer over CRI afterwards.
	answerTimeout = 60 * time.Second
	// reloadTimeout bounds how long a distribution may take to restart its runtime by
	// itself: k0s waits 3 s for further changes and starts a daemon that ended after 5 s.
	reloadTimeout = 30 * time.Second
	// answerPause is the pause between two questions.
	answerPause = 500 * time.Millisecond
)

// restartAndProve restarts the runtime and proves over CRI that it came back with
// the handlers and with every container that ran. When it did not, the
// configuration is rolled back and the runtime restarted again. Once begun it is
// carried through, also when the agent is told to stop: a node must not be left
// between two configurations.
func (a *Agent) restartAndProve(ctx context.Context, t transaction) (Live, error) {
	ctx = context.WithoutCancel(ctx)
	before, err := a.deps.Runtime.Running(ctx)
	if err != nil {
		return Live{}, err
	}
	live, err := a.restart(ctx, t.live, reloads(t.live, t.configChanges()))
	if err == nil {
		err = a.proved(ctx, t, live, before)
	}
	if err == nil {
		return live, nil
	}
	return Live{}, a.rollBack(ctx, t, err)
}

// restart restarts the runtime's unit, counts it, and waits until another process
// answers on the socket. Where the change itself makes the distribution restart its
// runtime (byItself), that is waited for first.
func (a *Agent) restart(ctx context.Context, was Live, byItself bool) (Live, error) {
	log := logr.FromContextOrDiscard(ctx)
	a.restarts.add(a.deps.Now())
	a.evidence.RuntimeRestarts++
	if byItself {
		log.Info("Waiting for the distribution to restart its container runtime", "unit", was.Unit.Name)
		live, err := a.answering(ctx, was.Process.StartedAt, reloadTimeout)
		if err == nil {
			return live, nil
		}
		log.Info("The distribution did not restart its container runtime", "why", err.Error())
	}
	log.Info("Restarting the container runtime", "unit", was.Unit.Name)
	jobCtx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	if err := a.deps.Runtime.Restart(jobCtx, was.Unit); err != nil {
		return Live{}, err
	}
	return a.answering(ctx, was.Process.StartedAt, answerTimeout)
}

// reloads says whether a distribution restarts its runtime by itself because of changes.
func reloads(live Live, cs plan.Changes) bool {
	d, _ := names.DistributionOf(live.Process.Config)
	return d.Reloads && slices.ContainsFunc(cs, func(c plan.Change) bool {
		return c.Effective() && path.Dir(c.Path) == path.Join(path.Dir(d.Config), d.DropInDir)
	})
}

// answering waits until the runtime answers with another start than before.
func (a *Agent) answering(ctx context.Context, before int64, timeout time.Duration) (Live, error) {
	var last error
	for deadline := a.deps.Now().Add(timeout); a.deps.Now().Before(deadline); a.deps.Pause(ctx, answerPause) {
		live, err := a.deps.Runtime.Look(ctx)
		switch {
		case err != nil:
			last = err
		case live.Process.StartedAt == before:
			last = fmt.Errorf("the runtime's process is still the one from before the restart")
		case !live.Status.Ready:
			last = fmt.Errorf("the runtime calls itself not ready")
		default:
			return live, nil
		}
	}
	return Live{}, fmt.Errorf("waiting %s for the runtime after its restart: %w", timeout, last)
}

// proved says in what the restarted runtime is not as it must be.
func (a *Agent) proved(ctx context.Context, t transaction, live Live, before map[string]string) error {
	if missing := t.stale(live); len(missing) > 0 {
		return fmt.Errorf("after the restart %s", strings.Join(missing, "; "))
	}
	after, err := a.deps.Runtime.Running(ctx)
	if err != nil {
		return err
	}
	var lost []string
	for id, name := range before {
		if _, ok := after[id]; !ok {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	if len(lost) > 0 { // they may have ended by themselves: said, not rolled back
		logr.FromContextOrDiscard(ctx).Info("Containers ended during the restart", "containers", lost)
	}
	return nil
}

// rollBack puts the configuration back as it was before the transaction, restarts
// the runtime and remembers not to try the same again. It returns the fault to report.
func (a *Agent) rollBack(ctx context.Context, t transaction, why error) error {
	f := &fault.Fault{
		Reason: fault.ReasonRestartFailed, Where: t.live.Unit.Name, Message: "the runtime did not come back with the handlers; the configuration was rolled back", Err: why,
		Remedy: "read the unit's log; it is tried again when the runtime was restarted by somebody",
	}
	a.refused, a.refusedStart, a.refusedWhy = t.hash, 0, f
	back := plan.Reverse(t.configChanges())
	if len(back) == 0 { // nothing of ours changed in this transaction: there is nothing to take back
		f.Message = "the runtime did not come back with the handlers after its restart"
		return f
	}
	s, err := a.deps.Root.Begin(host.Options{Payload: a.deps.Payload})
	if err == nil {
		_, err = s.Apply(back)
		_ = s.End()
	}
	if err != nil {
		f.Message = "the runtime did not come back with the handlers, and rolling back failed: " + err.Error()
		return f
	}
	was, err := a.restart(ctx, t.live, reloads(t.live, back))
	a.refusedStart = was.Process.StartedAt
	if err != nil {
		f.Message = "the runtime did not come back with the handlers; the configuration was rolled back, and it still does not answer: " + err.Error()
	}
	return f
}
