package gpu

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errSilent: a call was not answered in time, or an earlier one still hangs.
var errSilent = errors.New("the driver does not answer")

// guard lets one call through at a time. Calls into the driver cannot be broken
// off: while one is past its limit, further ones are refused at once instead of
// piling up; one that is only on its way is waited for.
type guard struct {
	once sync.Once
	slot chan struct{}
	hung atomic.Bool
	// mu makes one step of a call's end and of what that says about hanging.
	mu sync.Mutex
}

// enter returns the place that one call takes.
func (g *guard) enter() chan struct{} {
	g.once.Do(func() { g.slot = make(chan struct{}, 1) })
	return g.slot
}

// close lets no further call through, and reports whether the one on its way, if
// there is one, has ended within limit.
func (g *guard) close(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case g.enter() <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// within runs f under the guard and waits for it at most limit, the wait for a
// call before it included. A late result is thrown away.
func within[T any](ctx context.Context, g *guard, limit time.Duration, f func() T) (T, error) {
	var none T
	if g.hung.Load() {
		return none, errSilent
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	slot := g.enter()
	select {
	case slot <- struct{}{}:
	case <-timer.C:
		return none, errSilent
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan T, 1)
	answered := false
	go func() {
		v := f()
		g.mu.Lock()
		answered = true
		g.hung.Store(false)
		g.mu.Unlock()
		<-slot
		done <- v
	}()
	select {
	case v := <-done:
		return v, nil
	case <-timer.C:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	// The answer may have come in this very moment: then nothing hangs.
	g.mu.Lock()
	late := !answered
	if late {
		g.hung.Store(true)
	}
	g.mu.Unlock()
	if late {
		return none, errSilent
	}
	return <-done, nil
}
