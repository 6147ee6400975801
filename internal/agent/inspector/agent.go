package inspector

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// Periods of the loop.
const (
	// rescan is how often the host is looked at without being told to: the kernel's own
	// file systems tell nobody when they change.
	rescan = 15 * time.Second
	// settle is how long a burst of changes is waited out: an operand writes several
	// files for one purpose, and each would cost a request.
	settle = 300 * time.Millisecond
	// unfinished is how long other changes than reports may go on before they are news:
	// an operand at work on the host ends with its report, which ends the wait.
	unfinished = 3 * time.Second
	// backoffFirst and backoffLast bound the pause after a failed write. The object
	// appears a moment after the node does, so the first pause is short.
	backoffFirst = time.Second
	backoffLast  = 30 * time.Second
	// restartGrace is how long a container runtime that was there may be away before
	// its absence is news: it is being restarted, usually by our own toolkit.
	restartGrace = 10 * time.Second
	// restartLook is how often it is looked for meanwhile.
	restartLook = time.Second
)

// Store is this node's GPUNode in the cluster.
type Store interface {
	// Get returns the live object.
	Get(ctx context.Context) (v1alpha1.GPUNode, error)
	// ApplyStatus replaces what this writer says in the status.
	ApplyStatus(ctx context.Context, st v1alpha1.GPUNodeStatus) error
	// WaitGone blocks until the object, read at a resource version, is deleted; after
	// an error it may have been.
	WaitGone(ctx context.Context, since string) error
}

// Clock is the time; tests turn it by hand.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Agent keeps a GPUNode's status equal to what the host is.
type Agent struct {
	// Scan looks at the host.
	Scan func() facts.Node
	// Store is where the result goes.
	Store Store
	// Reports tells that an operand's report changed, Changes that something else on
	// the host did; nil: only the period does.
	Reports, Changes <-chan struct{}
	// Refresh is called after each look; it keeps the watches on directories that
	// appeared since.
	Refresh func(facts.Node)
	// Clock is the time.
	Clock Clock
	// Health is told of every look.
	Health *Health

	last      *v1alpha1.GPUNodeStatus
	notBefore time.Time
	backoff   time.Duration
	lastError string
	gone      chan struct{}
	watching  bool
	// awaySince is when the runtime was first seen away within its grace.
	awaySince time.Time
}

// Run looks and writes until the context ends.
func (a *Agent) Run(ctx context.Context) error {
	a.gone = make(chan struct{}, 1)
	for ctx.Err() == nil {
		n := a.Scan()
		a.Health.looked(a.Clock.Now())
		if a.Refresh != nil {
			a.Refresh(n)
		}
		if !a.restarting(n) {
			a.step(ctx, Own(StatusOf(n)))
		}
		a.pause(ctx)
	}
	return nil
}

// restarting says that the runtime which was there in this boot is away and may come
// back within its grace: half of a restart is not a state of the node.
func (a *Agent) restarting(n facts.Node) bool {
	now := a.Clock.Now()
	away := a.last != nil && a.last.Facts.BootID == n.Identity.BootID && a.last.Facts.RuntimeStartedAt != 0 && n.Identity.RuntimeStartedAt == 0
	switch {
	case !away:
		a.awaySince = time.Time{}
		return false
	case a.awaySince.IsZero():
		a.awaySince = now
	}
	return now.Sub(a.awaySince) < restartGrace
}

// step writes st when it is news and the last failure is long enough ago.
func (a *Agent) step(ctx context.Context, st v1alpha1.GPUNodeStatus) {
	now := a.Clock.Now()
	if a.last != nil && same(*a.last, st) || now.Before(a.notBefore) {
		return
	}
	if err := a.write(ctx, st); err != nil {
		a.backoff = min(max(2*a.backoff, backoffFirst), backoffLast)
		a.notBefore = now.Add(a.backoff)
		a.report(ctx, err)
		return
	}
	a.backoff, a.notBefore, a.lastError = 0, time.Time{}, ""
}

// write brings the live object to st. What the cluster has is asked only when it is
// not known: after a start, and after the object was deleted.
func (a *Agent) write(ctx context.Context, st v1alpha1.GPUNodeStatus) error {
	if a.last == nil {
		live, err := a.Store.Get(ctx)
		if err != nil {
			return err
		}
		if !a.watching {
			a.watching = true
			go a.watchGone(ctx, live.ResourceVersion)
		}
		if own := Own(live.Status); same(own, st) {
			a.last = &own
			a.Health.written()
			return nil
		}
	}
	if err := a.Store.ApplyStatus(ctx, st); err != nil {
		if apierrors.IsNotFound(err) {
			a.last = nil
		}
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Wrote status", "fingerprint", st.Fingerprint.Short, "driver", st.Driver.LoadedVersion, "evidence", len(st.Evidence), "findings", len(st.Findings))
	a.last = &st
	a.Health.written()
	return nil
}

// watchGone tells the loop once that the object was deleted or may have been, so
// that its successor is written anew. An agent that may not watch works on without.
func (a *Agent) watchGone(ctx context.Context, since string) {
	err := a.Store.WaitGone(ctx, since)
	switch {
	case apierrors.IsForbidden(err):
		logr.FromContextOrDiscard(ctx).Info("May not watch the GPUNode; a deleted one is noticed at the next change only", "error", err.Error())
		return
	case err != nil:
		select {
		case <-ctx.Done():
			return
		case <-a.Clock.After(backoffLast):
		}
	}
	a.gone <- struct{}{}
}

// report logs an error when it is another than the last one.
func (a *Agent) report(ctx context.Context, err error) {
	if err.Error() == a.lastError {
		return
	}
	a.lastError = err.Error()
	logr.FromContextOrDiscard(ctx).Info("Could not write status, trying again", "error", err.Error(), "pause", a.backoff.String())
}

// pause waits for a change, the period, or the end of a back-off.
func (a *Agent) pause(ctx context.Context) {
	wait := rescan
	if left := a.notBefore.Sub(a.Clock.Now()); left > 0 {
		wait = min(wait, left)
	}
	if !a.awaySince.IsZero() {
		wait = min(wait, restartLook)
	}
	select {
	case <-ctx.Done():
		return
	case <-a.Clock.After(wait):
		return
	case <-a.gone:
		a.last, a.watching = nil, false
	case <-a.Reports:
	case <-a.Changes:
		select {
		case <-ctx.Done():
		case <-a.Clock.After(unfinished):
		case <-a.Reports:
		}
	}
	select {
	case <-ctx.Done():
	case <-a.Clock.After(settle):
	}
	for _, told := range []<-chan struct{}{a.Reports, a.Changes} {
		select {
		case <-told:
		default:
		}
	}
}

// same says whether two statuses say the same; times are compared as they are
// stored, in whole seconds.
func same(a, b v1alpha1.GPUNodeStatus) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && string(x) == string(y)
}
