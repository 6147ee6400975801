package gpu

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpu-operator/internal/facts"
)

const (
	// eventWait bounds one wait in the driver, in milliseconds: so long can the end
	// of a watch take.
	eventWait = 1000
	// eventPause is the pause after a failed wait.
	eventPause = 5 * time.Second
)

// Unwatched is a GPU whose errors the driver does not report.
type Unwatched struct {
	UUID, Why string
}

// Watch sends the errors that the driver reports to sink until the context ends or
// the driver goes away; then it returns. Each GPU has an event set and a goroutine
// of its own: one that hangs hides no other's errors. The GPUs whose errors cannot
// be watched are told to without; sink and without may be called concurrently.
func (c *Client) Watch(ctx context.Context, sink func(facts.XID), without func(Unwatched)) error {
	inv, err := c.Inventory(ctx)
	if err != nil {
		return err
	}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	for _, d := range inv.Devices {
		if d.UUID == "" || d.Index >= len(s.devices) {
			continue
		}
		s.watchers.Go(func() {
			if err := c.watch(ctx, s, d, sink); err != nil {
				without(Unwatched{UUID: d.UUID, Why: err.Error()})
			}
		})
	}
	select {
	case <-s.stop:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// registration is an event set with one GPU.
type registration struct {
	set nvml.EventSet
	err error
}

// watch waits for errors of one GPU. It returns an error when it has to give up.
func (c *Client) watch(ctx context.Context, s *session, d facts.Device, sink func(facts.XID)) error {
	r, err := within(ctx, s.devices[d.Index], c.opts.Timeout, func() registration { return s.register(d.Index) })
	if err == nil {
		err = r.err
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.set.Free() }() // nothing can be done about a set that stays
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.stop:
			return nil
		default:
		}
		e, ret := r.set.Wait(eventWait)
		switch ret {
		case nvml.SUCCESS:
			if e.EventType == nvml.EventTypeXidCriticalError {
				sink(facts.XID{UUID: d.UUID, Code: int(e.EventData), GPUInstance: instance(e.GpuInstanceId)})
			}
		case nvml.ERROR_TIMEOUT:
		case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_UNINITIALIZED:
			return fmt.Errorf("waiting for errors: %s", word(ret))
		default:
			select {
			case <-ctx.Done():
			case <-s.stop:
			case <-time.After(eventPause):
			}
		}
	}
}

// register makes an event set for one GPU.
func (s *session) register(i int) registration {
	h, ret := s.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return registration{err: fmt.Errorf("finding the GPU: %s", word(ret))}
	}
	types, ret := h.GetSupportedEventTypes()
	if ret != nvml.SUCCESS || types&nvml.EventTypeXidCriticalError == 0 {
		return registration{err: fmt.Errorf("this GPU reports no errors: %s", word(ret))}
	}
	set, ret := s.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return registration{err: fmt.Errorf("making an event set: %s", word(ret))}
	}
	if ret := h.RegisterEvents(nvml.EventTypeXidCriticalError, set); ret != nvml.SUCCESS {
		_ = set.Free() // what went wrong before is worth more
		return registration{err: fmt.Errorf("registering for errors: %s", word(ret))}
	}
	return registration{set: set}
}

// instance is an event's GPU instance.
func instance(id uint32) int {
	if id == math.MaxUint32 {
		return facts.WholeGPU
	}
	return int(id)
}
