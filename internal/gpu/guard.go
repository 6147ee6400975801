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
}

// enter returns the place that one call takes.
func (g *guard) enter() chan struct{} {
	g.once.Do(func() { g.slot = make(chan struct{}, 1) })
	return g.slot
}

// close lets no further call through, and reports whether none is on its way.
func (g *guard) close() bool {
	select {
	case g.enter() <- struct{}{}:
		return true
	default:
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
	go func() {
		v := f()
		g.hung.Store(false)
		<-slot
		done <- v
	}()
	select {
	case v := <-done:
		return v, nil
	case <-timer.C:
		g.hung.Store(true)
		// The answer may have come in this very moment: then nothing hangs.
		select {
		case v := <-done:
			g.hung.Store(false)
			return v, nil
		default:
			return none, errSilent
		}
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
