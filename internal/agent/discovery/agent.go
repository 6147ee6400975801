package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/device"
	"gpu-operator/internal/device/label"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/gpu"
	"gpu-operator/internal/names"
)

const (
	// againFirst and againLast bound the pauses after something failed.
	againFirst = time.Second
	againLast  = 30 * time.Second
	// reread is how often the object is read although nothing changed, to notice one
	// that was deleted and made anew.
	reread = 10 * time.Minute
)

// timestamp is the label that says when the labels were derived.
const timestamp = names.Group + "/gfd.timestamp"

// GPUs is the driver.
type GPUs interface {
	Inventory(ctx context.Context) (facts.Inventory, error)
}

// Store is this node's GPUNode in the cluster.
type Store interface {
	// Get returns the live object.
	Get(ctx context.Context) (v1alpha1.GPUNode, error)
	// ApplyStatus replaces what this writer says in the status.
	ApplyStatus(ctx context.Context, st v1alpha1.GPUNodeStatus) error
}

// Clock is the time; tests turn it by hand.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Settings are what people choose.
type Settings struct {
	// Strategy is how MIG partitions are offered.
	Strategy device.Strategy
	// NoTimestamp leaves out the label that says when the labels were derived.
	NoTimestamp bool
	// Period is the pause between looks; zero: one look is enough for ever.
	Period time.Duration
	// Once ends the agent after the first labels were written.
	Once bool
}

// Agent keeps the labels in the GPUNode equal to what the GPUs are.
type Agent struct {
	GPUs     GPUs
	Store    Store
	Settings Settings
	Clock    Clock
	// Machine returns the machine's product name; empty: unknown.
	Machine func() string
	// BootID returns the kernel's boot id.
	BootID func() (string, error)
	// Health is told what goes on.
	Health *Health

	written  *v1alpha1.Discovery
	readAt   time.Time
	lastSaid string
}

// Run looks and writes until the context ends, or until only a new process can go on.
func (a *Agent) Run(ctx context.Context) error {
	pause := againFirst
	for {
		err := a.step(ctx)
		wait := a.Settings.Period
		switch {
		case ended(ctx):
			return nil
		case errors.Is(err, gpu.ErrOtherDriver):
			return err
		case err != nil:
			a.say(ctx, "Could not publish labels, trying again: "+err.Error())
			a.Health.failed(err, a.Clock.Now())
			wait, pause = pause, min(2*pause, againLast)
		default:
			a.lastSaid, pause = "", againFirst
			a.Health.done(a.Clock.Now())
			if a.Settings.Once {
				return nil
			}
		}
		var next <-chan time.Time
		if wait > 0 {
			next = a.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// step derives the labels and writes them if they are news.
func (a *Agent) step(ctx context.Context) error {
	boot, err := a.BootID()
	if err != nil {
		return err
	}
	inv, err := a.GPUs.Inventory(ctx)
	if err != nil {
		return err
	}
	want := v1alpha1.Discovery{BootID: boot, Labels: label.Of(label.Input{Inventory: inv, Strategy: a.Settings.Strategy, Machine: a.Machine()})}
	if len(want.Labels) == 0 {
		return errors.New("the driver shows no GPU that says who it is")
	}
	if err := a.read(ctx); err != nil {
		return err
	}
	if a.written != nil && same(*a.written, want) {
		return nil
	}
	if i := slices.IndexFunc(inv.Devices, func(d facts.Device) bool { return d.UUID == "" }); i >= 0 && a.written != nil && a.written.BootID == boot {
		// One GPU less because it does not answer is no reason to tell the cluster
		// that the node is another machine.
		return fmt.Errorf("GPU %d has not said who it is, the labels of this boot stand: %s", i, inv.Devices[i].Fault)
	}
	if !a.Settings.NoTimestamp {
		want.Labels[timestamp] = strconv.FormatInt(a.Clock.Now().Unix(), 10)
	}
	if err := a.Store.ApplyStatus(ctx, v1alpha1.GPUNodeStatus{Discovery: &want}); err != nil {
		a.written, a.readAt = nil, time.Time{}
		return explain(err)
	}
	if why := label.Explain(inv); why != "" {
		logr.FromContextOrDiscard(ctx).Info("The labels do not describe every GPU", "why", why)
	}
	logr.FromContextOrDiscard(ctx).Info("Wrote labels", "count", len(want.Labels), "gpus", len(inv.Devices), "driver", inv.DriverVersion)
	a.written = &want
	return nil
}

// read learns what the cluster has, after a start and now and then.
func (a *Agent) read(ctx context.Context) error {
	if now := a.Clock.Now(); a.readAt.IsZero() || now.Sub(a.readAt) >= reread {
		live, err := a.Store.Get(ctx)
		if err != nil {
			return explain(err)
		}
		a.written, a.readAt = live.Status.Discovery, now
	}
	return nil
}

// explain says what a missing object means.
func explain(err error) error {
	if apierrors.IsNotFound(err) {
		return errors.Join(errors.New("the operator has not made this node's GPUNode yet"), err)
	}
	return err
}

// same says whether two discoveries say the same; when they were made does not count.
func same(a, b v1alpha1.Discovery) bool {
	x, y := maps.Clone(a.Labels), maps.Clone(b.Labels)
	delete(x, timestamp)
	delete(y, timestamp)
	return a.BootID == b.BootID && maps.Equal(x, y)
}

// say logs a message when it is another than the last one.
func (a *Agent) say(ctx context.Context, message string) {
	if a.lastSaid != message {
		a.lastSaid = message
		logr.FromContextOrDiscard(ctx).Info(message)
	}
}

// ended says whether the agent was told to stop; what fails then is no failure.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
