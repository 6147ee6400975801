package gpu

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gpu-operator/internal/facts"
)

// TestGuardLetsCallsWaitForEachOther: two calls about the same GPU that both answer
// are both answered.
func TestGuardLetsCallsWaitForEachOther(t *testing.T) {
	t.Parallel()
	var g guard
	first := make(chan struct{})
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := within(t.Context(), &g, time.Minute, func() int { close(first); <-release; return 1 }); err != nil {
			t.Errorf("the first call: %v", err)
		}
	})
	<-first
	wg.Go(func() {
		if v, err := within(t.Context(), &g, time.Minute, func() int { return 2 }); err != nil || v != 2 {
			t.Errorf("the second call: %d, %v", v, err)
		}
	})
	close(release)
	wg.Wait()
}

// TestGuardRefusesBehindAHungCall: nothing piles up behind a call that is past its
// limit, and its end lets calls through again.
func TestGuardRefusesBehindAHungCall(t *testing.T) {
	t.Parallel()
	var g guard
	release, ended := make(chan struct{}), make(chan struct{})
	if _, err := within(t.Context(), &g, time.Millisecond, func() int { <-release; close(ended); return 0 }); !errors.Is(err, errSilent) {
		t.Fatalf("a hanging call: %v", err)
	}
	if _, err := within(t.Context(), &g, time.Hour, func() int { return 0 }); !errors.Is(err, errSilent) {
		t.Errorf("a call behind it: %v", err)
	}
	close(release)
	<-ended
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		v, err := within(ctx, &g, time.Second, func() int { return 3 })
		if err == nil && v == 3 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("a call after it ended: %v", err)
		}
	}
}

// TestAGPUThatMovedIsKnownOnce: a driver that was loaded anew without one GPU gives
// the others new numbers, and none is known twice.
func TestAGPUThatMovedIsKnownOnce(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	c.remember(0, facts.Device{UUID: "a"})
	c.remember(1, facts.Device{UUID: "b"})
	c.remember(0, facts.Device{UUID: "b"})
	if len(c.known) != 1 || c.known[0].UUID != "b" {
		t.Errorf("known are %v", c.known)
	}
}
