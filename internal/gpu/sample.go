package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpu-operator/internal/facts"
)

// Samples reads fields (see Fields) of every GPU, each GPU on its own. A GPU that
// does not answer has a sample without values that says why.
func (c *Client) Samples(ctx context.Context, fields []string) ([]facts.Sample, error) {
	s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.answers(ctx, s); err != nil {
		return nil, err
	}
	out := make([]facts.Sample, len(s.devices))
	var all sync.WaitGroup
	for i := range s.devices {
		all.Go(func() { out[i] = c.sample(ctx, s, i, fields) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading GPUs: %w", err)
	}
	return out, nil
}

// sample reads one GPU. Who it is was asked once and is remembered.
func (c *Client) sample(ctx context.Context, s *session, i int, fields []string) facts.Sample {
	c.mu.Lock()
	d, seen := c.known[i]
	c.mu.Unlock()
	if !seen {
		d = c.device(ctx, s, i)
	}
	out := facts.Sample{Index: i, Minor: d.Minor, UUID: d.UUID, BusID: d.BusID, Product: d.Product, State: d.State, Fault: d.Fault}
	if !d.Present() {
		return out
	}
	got, err := within(ctx, s.devices[i], c.opts.Timeout, func() facts.Sample { return s.read(i, fields) })
	if err != nil {
		got = facts.Sample{State: facts.DeviceSilent, Fault: err.Error()}
	}
	out.State, out.Fault, out.Values, out.Texts = got.State, got.Fault, got.Values, got.Texts
	return out
}

// read reads fields of one GPU.
func (s *session) read(i int, fields []string) facts.Sample {
	out := facts.Sample{State: facts.DevicePresent, Values: map[string]float64{}, Texts: map[string]string{}}
	h, ret := s.lib.DeviceGetHandleByIndex(i)
	if ret == nvml.SUCCESS {
		_, ret = h.GetUUID() // a lost GPU says so here, and "not supported" elsewhere
	}
	if ret != nvml.SUCCESS {
		return facts.Sample{State: facts.DeviceLost, Fault: word(ret)}
	}
	numbers, texts := readers(), words()
	for _, f := range fields {
		if read, ok := numbers[f]; ok {
			if v, ok := read(s, h); ok {
				out.Values[f] = v
			}
		}
		if read, ok := texts[f]; ok {
			if v, ok := read(s, h); ok {
				out.Texts[f] = v
			}
		}
	}
	return out
}

// Probe looks anew at the GPU with a UUID: does it answer, and what does the driver
// say that it needs.
func (c *Client) Probe(ctx context.Context, uuid string) (facts.Probe, error) {
	s, err := c.open(ctx)
	if err != nil {
		return facts.Probe{}, err
	}
	index, ok := c.index(uuid)
	if !ok || index >= len(s.devices) {
		return facts.Probe{State: facts.DeviceLost, Fault: fmt.Sprintf("no GPU %q has answered", uuid), Action: facts.RecoveryUnknown}, nil
	}
	p, err := within(ctx, s.devices[index], c.opts.Timeout, func() facts.Probe { return s.probe(index, uuid) })
	if errors.Is(err, errSilent) {
		return facts.Probe{State: facts.DeviceSilent, Fault: errSilent.Error(), Action: facts.RecoveryUnknown}, nil
	}
	return p, err
}

// index finds a GPU that has answered by its UUID.
func (c *Client) index(uuid string) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range c.known {
		if d.UUID == uuid {
			return i, true
		}
	}
	return 0, false
}

// probe asks one GPU for its health.
func (s *session) probe(i int, uuid string) facts.Probe {
	out := facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryUnknown}
	h, ret := s.lib.DeviceGetHandleByIndex(i)
	var got string
	if ret == nvml.SUCCESS {
		got, ret = h.GetUUID()
	}
	if ret == nvml.SUCCESS {
		_, ret = h.GetMemoryInfo()
	}
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		out.State, out.Fault = facts.DeviceLost, word(ret)
		return out
	}
	if got != uuid {
		out.State, out.Fault = facts.DeviceLost, fmt.Sprintf("GPU %d is %q now", i, got)
		return out
	}
	if v, ok := fieldValue(h, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION); ok {
		out.Action = facts.RecoveryAction(v)
	}
	return out
}
