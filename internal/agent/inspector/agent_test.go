package inspector

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// fakeStore is a GPUNode in memory that counts requests.
type fakeStore struct {
	mu     sync.Mutex
	object *v1alpha1.GPUNode // nil: not created
	fail   error             // answer of the next writes
	log    []string
	gone   chan struct{}
}

func notFound() error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "nvidia.com", Resource: "gpunodes"}, "n1")
}

func (s *fakeStore) Get(context.Context) (v1alpha1.GPUNode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "get")
	if s.object == nil {
		return v1alpha1.GPUNode{}, notFound()
	}
	return *s.object, nil
}

func (s *fakeStore) ApplyStatus(_ context.Context, st v1alpha1.GPUNodeStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "apply")
	if s.fail != nil {
		return s.fail
	}
	if s.object == nil {
		return notFound()
	}
	s.object.Status = st
	return nil
}

func (s *fakeStore) WaitGone(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.gone:
		return nil
	}
}

// requests returns and forgets what was asked so far.
func (s *fakeStore) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.log
	s.log = nil
	return out
}

// fakeClock stands still; every wait is announced and ends when the test says so.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	waits chan time.Duration
	fire  chan time.Time
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.waits <- d
	return c.fire
}

// rig runs an agent on fakes.
type rig struct {
	t       *testing.T
	store   *fakeStore
	clock   *fakeClock
	reports chan struct{}
	changes chan struct{}
	agent   *Agent
	mu      sync.Mutex
	node    facts.Node
}

func newRig(t *testing.T, object *v1alpha1.GPUNode) *rig {
	r := &rig{
		t: t, store: &fakeStore{object: object, gone: make(chan struct{})}, reports: make(chan struct{}, 1), changes: make(chan struct{}, 1),
		clock: &fakeClock{now: time.Unix(1000, 0), waits: make(chan time.Duration), fire: make(chan time.Time)},
		node:  facts.Node{Identity: v1alpha1.NodeFacts{BootID: "b1", Kernel: "6.1"}},
	}
	scan := func() facts.Node {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.node
	}
	r.agent = &Agent{Scan: scan, Store: r.store, Reports: r.reports, Changes: r.changes, Clock: r.clock, Health: NewHealth(r.clock.Now)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for {
			select {
			case <-done:
				return
			case <-r.clock.waits: // a last wait that the end of the context overtook
			}
		}
	})
	return r
}

// wait expects the agent to wait that long.
func (r *rig) wait(want time.Duration) {
	r.t.Helper()
	if got := <-r.clock.waits; got != want {
		r.t.Fatalf("agent waits %s, want %s", got, want)
	}
}

// elapse ends the wait of that length, with the clock moved on.
func (r *rig) elapse(d time.Duration) {
	r.t.Helper()
	r.clock.mu.Lock()
	r.clock.now = r.clock.now.Add(d)
	now := r.clock.now
	r.clock.mu.Unlock()
	r.clock.fire <- now
}

// see changes what the host looks like.
func (r *rig) see(change func(*facts.Node)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.node)
}

// asked expects these requests since the last call.
func (r *rig) asked(want ...string) {
	r.t.Helper()
	if d := cmp.Diff(want, r.store.requests()); d != "" {
		r.t.Fatalf("requests differ (-want +got):\n%s", d)
	}
}

// TestWritesOnlyNews: an unchanged host costs nothing, a changed one a single request.
func TestWritesOnlyNews(t *testing.T) {
	r := newRig(t, &v1alpha1.GPUNode{})
	r.wait(rescan)
	r.asked("get", "apply")
	for range 3 {
		r.elapse(rescan)
		r.wait(rescan)
		r.asked()
	}
	r.see(func(n *facts.Node) { n.Driver.LoadedVersion = "570.1" })
	r.reports <- struct{}{}
	r.wait(settle)
	r.reports <- struct{}{} // more of the same burst
	r.elapse(settle)
	r.wait(rescan)
	r.asked("apply")
	if got := r.store.object.Status.Driver.LoadedVersion; got != "570.1" {
		t.Errorf("written driver version is %q", got)
	}
}

// TestWorkOnTheHostIsOneWrite: while an operand changes the host, nothing is written
// until it reports, or until it takes too long.
func TestWorkOnTheHostIsOneWrite(t *testing.T) {
	for name, report := range map[string]bool{"ends with a report": true, "takes too long": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &v1alpha1.GPUNode{})
			r.wait(rescan)
			r.asked("get", "apply")
			r.see(func(n *facts.Node) { n.LedgerError = "being written" })
			r.changes <- struct{}{}
			r.wait(unfinished)
			r.changes <- struct{}{}
			r.asked()
			r.see(func(n *facts.Node) { n.LedgerError = ""; n.Driver.LoadedVersion = "570.1" })
			if report {
				r.reports <- struct{}{}
			} else {
				r.elapse(unfinished)
			}
			r.wait(settle)
			r.elapse(settle)
			r.wait(rescan)
			r.asked("apply")
		})
	}
}

// TestRestartWritesNothing: after a restart of the inspector the live object is
// compared, other writers' fields apart.
func TestRestartWritesNothing(t *testing.T) {
	n := facts.Node{Identity: v1alpha1.NodeFacts{BootID: "b1", Kernel: "6.1"}}
	live := &v1alpha1.GPUNode{Status: StatusOf(n)}
	live.Status.Stage = "Ready"
	live.Status.Gates = []v1alpha1.Gate{{Step: "driver", State: "Open"}}
	r := newRig(t, live)
	r.wait(rescan)
	r.asked("get")
	if err := r.agent.Health.ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

// TestWaitsForObject: the object is awaited with growing, bounded pauses.
func TestWaitsForObject(t *testing.T) {
	r := newRig(t, nil)
	for _, want := range []time.Duration{1, 2, 4, 8} {
		r.wait(want * time.Second)
		r.asked("get")
		if err := r.agent.Health.ready(); err == nil {
			t.Error("ready before anything was written")
		}
		r.elapse(want * time.Second)
	}
	// A back-off longer than the period does not stop the looking, only the writing.
	r.wait(rescan)
	r.asked("get")
	r.elapse(rescan)
	r.wait(time.Second)
	r.asked()
	r.store.mu.Lock()
	r.store.object = &v1alpha1.GPUNode{}
	r.store.mu.Unlock()
	r.elapse(time.Second)
	r.wait(rescan)
	r.asked("get", "apply")
}

// TestBackoffIsBounded: failures for ever cost one request a half minute.
func TestBackoffIsBounded(t *testing.T) {
	a := &Agent{Store: &fakeStore{fail: errors.New("no route to host")}, Clock: &fakeClock{now: time.Unix(0, 0)}, Health: NewHealth(time.Now)}
	st := StatusOf(facts.Node{})
	for range 20 {
		a.notBefore = time.Time{}
		a.step(t.Context(), st)
	}
	if a.backoff != backoffLast {
		t.Errorf("back-off is %s, want %s", a.backoff, backoffLast)
	}
}

// TestDeletedObjectIsWrittenAnew: a GPUNode that was deleted and made again gets its
// status without any change on the host.
func TestDeletedObjectIsWrittenAnew(t *testing.T) {
	r := newRig(t, &v1alpha1.GPUNode{})
	r.wait(rescan)
	r.asked("get", "apply")
	r.store.mu.Lock()
	r.store.object = &v1alpha1.GPUNode{}
	r.store.mu.Unlock()
	r.store.gone <- struct{}{}
	r.wait(settle)
	r.elapse(settle)
	r.wait(rescan)
	r.asked("get", "apply")
}

// TestRuntimeRestartIsNotNews: a runtime that comes back within its grace costs one
// write, for its new start; one that stays away is reported.
func TestRuntimeRestartIsNotNews(t *testing.T) {
	r := newRig(t, &v1alpha1.GPUNode{})
	r.see(func(n *facts.Node) { n.Identity.RuntimeStartedAt = 100 })
	r.wait(rescan)
	r.store.requests()
	r.elapse(rescan)
	r.wait(rescan)
	r.store.requests()

	r.see(func(n *facts.Node) { n.Identity.RuntimeStartedAt = 0 })
	r.elapse(rescan)
	r.wait(restartLook)
	r.asked()
	r.see(func(n *facts.Node) { n.Identity.RuntimeStartedAt = 200 })
	r.elapse(restartLook)
	r.wait(rescan)
	r.asked("apply")

	r.see(func(n *facts.Node) { n.Identity.RuntimeStartedAt = 0 })
	r.elapse(rescan)
	for range int(restartGrace / restartLook) {
		r.wait(restartLook)
		r.asked()
		r.elapse(restartLook)
	}
	r.wait(restartLook)
	r.asked("apply")
	if got := r.store.object.Status.Facts.RuntimeStartedAt; got != 0 {
		t.Errorf("runtime that is gone is reported as started at %d", got)
	}
}

// TestHealth: an inspector that stopped looking is not alive.
func TestHealth(t *testing.T) {
	now := time.Unix(0, 0)
	h := NewHealth(func() time.Time { return now })
	now = now.Add(stuckAfter)
	if err := h.alive(); err != nil {
		t.Errorf("dead too early: %v", err)
	}
	now = now.Add(time.Second)
	if h.alive() == nil {
		t.Error("alive though it did not look for long")
	}
	h.looked(now)
	if err := h.alive(); err != nil {
		t.Errorf("dead after a look: %v", err)
	}
}
