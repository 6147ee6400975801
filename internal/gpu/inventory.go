package gpu

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpu-operator/internal/facts"
)

// Inventory returns what every GPU says of itself. A GPU that does not answer is in
// it, with its state and what it said before. The error concerns the driver as a
// whole; ErrOtherDriver is in its chain when only a new process can help.
func (c *Client) Inventory(ctx context.Context) (facts.Inventory, error) {
	s, err := c.open(ctx)
	if err != nil {
		return facts.Inventory{}, err
	}
	if err := c.answers(ctx, s); err != nil {
		return facts.Inventory{}, err
	}
	inv := facts.Inventory{DriverVersion: s.driver, CUDAVersion: s.cuda, Devices: make([]facts.Device, len(s.devices))}
	var all sync.WaitGroup
	for i := range s.devices {
		all.Go(func() { inv.Devices[i] = c.device(ctx, s, i) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return facts.Inventory{}, fmt.Errorf("taking the inventory of GPUs: %w", err)
	}
	return inv, nil
}

// remember keeps what a GPU said of itself. A GPU that was known under another
// number has moved there: a driver that was loaded anew counts those that are left.
func (c *Client) remember(i int, d facts.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for j, k := range c.known {
		if j != i && k.UUID == d.UUID {
			delete(c.known, j)
		}
	}
	c.known[i] = d
}

// device looks at one GPU under its guard, and remembers what it said.
func (c *Client) device(ctx context.Context, s *session, i int) facts.Device {
	c.mu.Lock()
	before, seen := c.known[i]
	c.mu.Unlock()
	d, err := within(ctx, s.devices[i], c.opts.Timeout, func() facts.Device { return s.describe(i, c.opts.Sysfs) })
	if err != nil {
		d = facts.Device{Index: i, State: facts.DeviceSilent, Fault: err.Error()}
	}
	if d.Present() {
		c.remember(i, d)
		return d
	}
	if seen {
		before.State, before.Fault = d.State, d.Fault
		return before
	}
	d.Minor, d.NUMA = facts.UnknownMinor, facts.NoNUMA
	return d
}

// describe asks one GPU everything that the inventory holds.
func (s *session) describe(i int, sysfs string) facts.Device {
	d := facts.Device{Index: i, State: facts.DevicePresent, NUMA: facts.NoNUMA}
	lost := func(what string, ret nvml.Return) facts.Device {
		return facts.Device{Index: i, State: facts.DeviceLost, Fault: fmt.Sprintf("%s: %s", what, word(ret))}
	}
	h, ret := s.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return lost("finding it", ret)
	}
	if d.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return lost("asking for its UUID", ret)
	}
	pci, ret := h.GetPciInfo()
	if ret != nvml.SUCCESS {
		return lost("asking for its PCI address", ret)
	}
	d.BusID = busID(text(pci.BusId[:]))
	if d.Product, ret = h.GetName(); ret != nvml.SUCCESS {
		return lost("asking for its name", ret)
	}
	memory, ret := h.GetMemoryInfo()
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		return lost("asking for its memory", ret)
	}
	d.Memory = memory.Total
	s.details(h, &d)
	d.Class, d.NUMA = slot(sysfs, d.BusID)
	return d
}

// details asks what a GPU may not be able to tell.
func (s *session) details(h nvml.Device, d *facts.Device) {
	d.Minor = facts.UnknownMinor
	if v, ret := h.GetMinorNumber(); ret == nvml.SUCCESS {
		d.Minor = v
	}
	if v, ret := h.GetSerial(); ret == nvml.SUCCESS {
		d.Serial = v
	}
	if major, minor, ret := h.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		d.ComputeMajor, d.ComputeMinor = major, minor
	}
	if current, _, ret := h.GetMigMode(); ret == nvml.SUCCESS {
		d.MIGCapable, d.MIGEnabled = true, current == nvml.DEVICE_MIG_ENABLE
	}
	if d.MIGEnabled {
		d.MIG = partitions(s.lib, h)
	}
	d.Links = s.links(h)
}

// links counts a GPU's active NVLinks by the peer that they end at.
func (s *session) links(h nvml.Device) map[string]int {
	out := map[string]int{}
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := h.GetNvLinkState(link)
		if ret != nvml.SUCCESS {
			break // no NVLink, or no further link
		}
		if state != nvml.FEATURE_ENABLED {
			continue
		}
		if s.hasRemoteTypes {
			if kind, ret := h.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				out[facts.LinkSwitch]++
				continue
			}
		}
		if peer, ret := h.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			out[busID(text(peer.BusId[:]))]++
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// text is a C string.
func text(c []int8) string {
	b := make([]byte, 0, len(c))
	for _, x := range c {
		if x == 0 {
			break
		}
		b = append(b, byte(x))
	}
	return string(b)
}

// busID turns NVML's PCI address into sysfs's: 00000000:19:00.0 is 0000:19:00.0.
func busID(v string) string {
	v = strings.ToLower(v)
	domain, rest, ok := strings.Cut(v, ":")
	if !ok {
		return v
	}
	if n, err := strconv.ParseUint(domain, 16, 32); err == nil {
		domain = fmt.Sprintf("%04x", n)
	}
	return domain + ":" + rest
}

// slot reads a PCI device's class (six digits) and NUMA node in sysfs.
func slot(sysfs, bus string) (class string, numa int) {
	if sysfs == "" {
		return "", facts.NoNUMA
	}
	dir := filepath.Join(sysfs, pciDir, bus)
	numa = facts.NoNUMA
	if data, err := os.ReadFile(filepath.Join(dir, "numa_node")); err == nil {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(data))); err == nil && n >= 0 {
			numa = n
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "class")); err == nil {
		class = strings.TrimPrefix(string(bytes.TrimSpace(data)), "0x")
	}
	return class, numa
}
