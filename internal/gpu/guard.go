package gpu

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errSilent: a call was not answered in time, or an earlier one still hangs.
var errSilent = errors.New("the driver does not answer")

// guard lets one call through at a time. Calls into the driver cannot be broken
// off; while one hangs, further ones are refused at once instead of piling up.
type guard struct{ busy atomic.Bool }

// within runs f under the guard and waits for it at most limit. A late result is
// thrown away.
func within[T any](ctx context.Context, g *guard, limit time.Duration, f func() T) (T, error) {
	var none T
	if !g.busy.CompareAndSwap(false, true) {
		return none, errSilent
	}
	done := make(chan T, 1)
	go func() {
		v := f()
		g.busy.Store(false)
		done <- v
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-done:
		return v, nil
	case <-timer.C:
		return none, errSilent
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
