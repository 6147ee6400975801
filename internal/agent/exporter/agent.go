package exporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"gpu-operator/internal/agent/probe"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/gpu"
)

const (
	// kubeletWait bounds one question to the kubelet.
	kubeletWait = 5 * time.Second
	// stuckAfter is how many periods may pass without a collection, and stuckMin how
	// long at least, before the process counts as stuck.
	stuckAfter = 4
	stuckMin   = 2 * time.Minute
	// watchPause is the pause before errors are watched for again.
	watchPause = 10 * time.Second
)

// GPUs is the driver.
type GPUs interface {
	Samples(ctx context.Context, fields []string) ([]facts.Sample, error)
	Watch(ctx context.Context, sink func(facts.XID), without func(gpu.Unwatched)) error
}

// Pods knows which container has which GPU.
type Pods interface {
	Owners(ctx context.Context) (map[string]Owner, error)
}

// Clock is the time; tests turn it by hand.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Agent collects and exports.
type Agent struct {
	GPUs GPUs
	// Pods is who has what; nil: nobody is asked.
	Pods Pods
	// View is how it is printed.
	View View
	// Period is the pause between collections.
	Period time.Duration
	Clock  Clock

	latest atomic.Pointer[Snapshot]
	// started is when the agent began, in nanoseconds since 1970.
	started  atomic.Int64
	mu       sync.Mutex
	xids     map[string]int
	lastSaid map[string]string
	// missedOwners counts failures of the kubelet in a row.
	missedOwners int
}

// Run collects until the context ends, or until only a new process can go on.
func (a *Agent) Run(ctx context.Context) error {
	a.xids, a.lastSaid = map[string]int{}, map[string]string{}
	a.started.Store(a.Clock.Now().UnixNano())
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { a.watch(ctx) })
	for {
		if err := a.collect(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.Clock.After(a.Period):
		}
	}
}

// collect takes one snapshot. GPUs and the kubelet are asked at the same time.
func (a *Agent) collect(ctx context.Context) error {
	before := a.latest.Load()
	if before == nil {
		before = &Snapshot{}
	}
	start := a.Clock.Now()
	next := Snapshot{At: start, Owners: before.Owners, OwnersKnown: before.OwnersKnown}
	var asking sync.WaitGroup
	if a.Pods != nil {
		asking.Go(func() { a.owners(ctx, &next) })
	}
	samples, err := a.GPUs.Samples(ctx, a.fields())
	asking.Wait()
	switch {
	case ended(ctx):
		return nil
	case errors.Is(err, gpu.ErrOtherDriver):
		return err
	case err != nil:
		a.say(ctx, "driver", "The driver does not answer: "+err.Error())
		// Who is there is still known; readings would be lies.
		for _, s := range before.Samples {
			s.State, s.Fault, s.Values = facts.DeviceLost, err.Error(), nil
			next.Samples = append(next.Samples, s)
		}
	default:
		next.Driver, next.Samples = true, samples
		a.say(ctx, "driver", fmt.Sprintf("Reading %d GPUs", len(samples)))
		a.report(ctx, samples)
	}
	a.mu.Lock()
	next.XIDs = maps.Clone(a.xids)
	a.mu.Unlock()
	next.Took = a.Clock.Now().Sub(start)
	a.latest.Store(&next)
	return nil
}

// owners asks the kubelet. When it fails once, what it said before stands: a label
// that comes and goes makes two series out of one.
func (a *Agent) owners(ctx context.Context, s *Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, kubeletWait)
	defer cancel()
	owners, err := a.Pods.Owners(ctx)
	if err == nil {
		a.missedOwners = 0
		s.Owners, s.OwnersKnown = owners, true
		a.say(ctx, "kubelet", "The kubelet says which container has which GPU")
		return
	}
	a.missedOwners++
	s.OwnersKnown = false
	if a.missedOwners > 1 {
		s.Owners = nil
	}
	a.say(ctx, "kubelet", "GPUs cannot be attributed to containers: "+err.Error())
}

// fields are the names of the fields to read.
func (a *Agent) fields() []string {
	var out []string
	for _, c := range a.View.Counters {
		out = append(out, c.Field)
	}
	return out
}

// report logs GPUs that ceased to answer or came back.
func (a *Agent) report(ctx context.Context, samples []facts.Sample) {
	for _, s := range samples {
		about := fmt.Sprintf("gpu %d", s.Index)
		if s.State != facts.DevicePresent {
			a.say(ctx, about, fmt.Sprintf("GPU %d (%s) does not answer: %s", s.Index, s.UUID, s.Fault))
		} else if a.said(about) {
			a.say(ctx, about, fmt.Sprintf("GPU %d (%s) answers again", s.Index, s.UUID))
		}
	}
}

// watch keeps the last error of each GPU.
func (a *Agent) watch(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	sink := func(x facts.XID) {
		log.Info("The driver reported an error", "gpu", x.UUID, "xid", x.Code)
		a.mu.Lock()
		a.xids[x.UUID] = x.Code
		a.mu.Unlock()
	}
	without := func(u gpu.Unwatched) {
		log.Info("Errors of a GPU are not reported any more", "gpu", u.UUID, "why", u.Why)
	}
	for ctx.Err() == nil {
		// What goes wrong here also goes wrong in collect, which says so.
		_ = a.GPUs.Watch(ctx, sink, without)
		select {
		case <-ctx.Done():
		case <-a.Clock.After(watchPause):
		}
	}
}

// said says whether something was said about a thing.
func (a *Agent) said(about string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastSaid[about] != ""
}

// say logs a message about something when it is another than the last one.
func (a *Agent) say(ctx context.Context, about, message string) {
	a.mu.Lock()
	news := a.lastSaid[about] != message
	a.lastSaid[about] = message
	a.mu.Unlock()
	if news {
		logr.FromContextOrDiscard(ctx).Info(message)
	}
}

// Handler serves /metrics, /health and the kubelet's probes.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		s := a.latest.Load()
		if s == nil {
			s = &Snapshot{}
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Render(w, *s, a.View) // the reader has gone
	})
	probe.Handle(mux, map[string]func() error{"/health": a.ready, "/healthz": a.alive, "/readyz": a.ready})
	return mux
}

// ready fails until GPUs were read.
func (a *Agent) ready() error {
	switch s := a.latest.Load(); {
	case s == nil:
		return errors.New("the GPUs were not read yet")
	case !s.Driver:
		return errors.New("the driver does not answer")
	case len(s.Samples) == 0:
		return errors.New("the driver shows no GPU")
	}
	return nil
}

// alive fails when no collection has ended for too long.
func (a *Agent) alive() error {
	last := time.Unix(0, a.started.Load())
	if s := a.latest.Load(); s != nil {
		last = s.At
	}
	limit := max(stuckAfter*a.Period, stuckMin)
	if age := a.Clock.Now().Sub(last); a.started.Load() != 0 && age > limit {
		return fmt.Errorf("the last collection was %s ago, want at most %s", age.Round(time.Second), limit)
	}
	return nil
}

// ended says whether the agent was told to stop; what fails then is no failure.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
