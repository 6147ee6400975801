package gpu

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/internal/facts"
	"gpu-operator/sim/rig"
)

const timeout = 300 * time.Millisecond

// TestClient walks one simulated machine through its life. The steps share a
// process's one binding to the library and therefore one machine.
func TestClient(t *testing.T) {
	m := rig.New(t, "../../sim", "H100-SXM5-80GB", "gpu-1", 8)
	c := New(Options{Library: m.Library(), Sysfs: m.Sysfs(), Timeout: timeout})
	t.Cleanup(c.Close)

	t.Run("without a driver every question fails and says so", func(t *testing.T) {
		_, err := c.Inventory(t.Context())
		if err == nil || errors.Is(err, ErrOtherDriver) {
			t.Fatalf("Inventory without a driver: %v, want an error that is worth waiting out", err)
		}
	})

	m.Load(t)
	t.Run("the same client finds the driver when it comes", func(t *testing.T) {
		inv := inventory(t, c)
		if len(inv.Devices) != 8 || inv.DriverVersion != rig.Version || inv.CUDAVersion != 12040 {
			t.Fatalf("got %d GPUs of driver %q with CUDA %d", len(inv.Devices), inv.DriverVersion, inv.CUDAVersion)
		}
		want := facts.Device{
			Index: 4, Minor: 4, UUID: inv.Devices[4].UUID, BusID: "0000:9b:00.0", Class: "030200", Product: "NVIDIA H100 80GB HBM3",
			Serial: inv.Devices[4].Serial, Memory: 85520809984, NUMA: 1, ComputeMajor: 9, MIGCapable: true,
			Links: map[string]int{facts.LinkSwitch: 18}, State: facts.DevicePresent,
		}
		if diff := cmp.Diff(want, inv.Devices[4]); diff != "" {
			t.Errorf("GPU 4 (-want +got):\n%s", diff)
		}
	})
	t.Run("a lost GPU keeps its identity and harms no other", func(t *testing.T) {
		m.Set(t, 3, "lost=true")
		t.Cleanup(func() { m.Set(t, 3, "lost=false") })
		inv := inventory(t, c)
		if d := inv.Devices[3]; d.State != facts.DeviceLost || d.UUID == "" || d.Fault == "" {
			t.Errorf("GPU 3 is %+v, want it lost, with UUID and fault", d)
		}
		if got := present(inv); got != 7 {
			t.Errorf("%d GPUs present, want 7", got)
		}
		if p := probe(t, c, inv.Devices[3].UUID); p.State != facts.DeviceLost {
			t.Errorf("probe of the lost GPU: %+v", p)
		}
	})
	t.Run("a hanging GPU is given up on in time and harms no other", func(t *testing.T) {
		m.Set(t, 5, "hang=true")
		t.Cleanup(func() { m.Set(t, 5, "hang=false") })
		for range 3 { // the second time the first call still hangs
			start := time.Now()
			samples, err := c.Samples(t.Context(), []string{"DCGM_FI_DEV_GPU_TEMP"})
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 4*timeout {
				t.Errorf("reading took %s with one GPU hanging", took)
			}
			for i, s := range samples {
				if _, ok := s.Values["DCGM_FI_DEV_GPU_TEMP"]; ok != (i != 5) {
					t.Errorf("GPU %d: values %v, state %s", i, s.Values, s.State)
				}
			}
			if samples[5].State != facts.DeviceSilent {
				t.Errorf("GPU 5 is %s, want it silent", samples[5].State)
			}
		}
	})
	t.Run("it answers again when it stops hanging", func(t *testing.T) {
		deadline := time.Now().Add(5 * time.Second)
		for probe(t, c, inventory(t, c).Devices[5].UUID).State != facts.DevicePresent {
			if time.Now().After(deadline) {
				t.Fatal("GPU 5 does not answer any more")
			}
		}
	})
	t.Run("readings are in the units of the names", func(t *testing.T) {
		m.Set(t, 2, "power=412.5", "memory.used=1073741824", "temperature=61", "pcie.tx=3", "memory-temperature=70")
		samples, err := c.Samples(t.Context(), Fields())
		if err != nil {
			t.Fatal(err)
		}
		for field, want := range map[string]float64{
			"DCGM_FI_DEV_POWER_USAGE": 412.5, "DCGM_FI_DEV_FB_USED": 1024, "DCGM_FI_DEV_GPU_TEMP": 61,
			"DCGM_FI_PROF_PCIE_TX_BYTES": 3000, "DCGM_FI_DEV_FB_RESERVED": 551, "DCGM_FI_DEV_MEMORY_TEMP": 70,
		} {
			if got := samples[2].Values[field]; got != want {
				t.Errorf("%s is %v, want %v", field, got, want)
			}
		}
		if got := samples[2].Texts["DCGM_FI_DRIVER_VERSION"]; got != rig.Version {
			t.Errorf("driver version %q", got)
		}
		if _, ok := samples[2].Values["DCGM_FI_DEV_FAN_SPEED"]; ok {
			t.Error("a GPU without a fan has a fan speed")
		}
	})
	t.Run("errors arrive, with the GPU that they are of", func(t *testing.T) { events(t, c, m) })
	t.Run("after the driver was away the client opens it again", func(t *testing.T) {
		c.Close() // as the driver's update makes everyone do
		m.Unload(t)
		if _, err := c.Inventory(t.Context()); err == nil {
			t.Fatal("Inventory of an unloaded driver succeeded")
		}
		m.Load(t)
		if got := present(inventory(t, c)); got != 8 {
			t.Errorf("%d GPUs present, want 8", got)
		}
	})
}

// events raises errors on two GPUs while a third hangs.
func events(t *testing.T, c *Client, m *rig.Rig) {
	inv := inventory(t, c)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	got := make(chan facts.XID, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Watch(ctx, func(x facts.XID) { got <- x }, func(u Unwatched) { t.Logf("unwatched: %+v", u) })
	}()
	want := []facts.XID{{UUID: inv.Devices[1].UUID, Code: 79, GPUInstance: facts.WholeGPU}, {UUID: inv.Devices[6].UUID, Code: 31, GPUInstance: facts.WholeGPU}}
	// An error from before the registration is not told: raise harmless ones until
	// each GPU concerned has told one.
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for heard := map[string]bool{}; len(heard) < len(want); {
		select {
		case <-tick.C:
			m.Set(t, 1, "xid=13")
			m.Set(t, 6, "xid=13")
		case x := <-got:
			heard[x.UUID] = true
		case <-deadline:
			t.Fatalf("errors arrived from %v only", heard)
		}
	}
	m.Set(t, 1, "xid=79")
	m.Set(t, 6, "xid=31")
	var seen []facts.XID
	for len(seen) < len(want) {
		select {
		case x := <-got:
			if x.Code != 13 {
				seen = append(seen, x)
			}
		case <-deadline:
			t.Fatalf("got %v, want %v", seen, want)
		}
	}
	slices.SortFunc(seen, func(a, b facts.XID) int { return b.Code - a.Code })
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch ended with %v", err)
	}
}

func inventory(t *testing.T, c *Client) facts.Inventory {
	t.Helper()
	inv, err := c.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func probe(t *testing.T, c *Client, uuid string) facts.Probe {
	t.Helper()
	p, err := c.Probe(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func present(inv facts.Inventory) int {
	n := 0
	for _, d := range inv.Devices {
		if d.Present() {
			n++
		}
	}
	return n
}

// TestBusID: the driver's address in sysfs's words.
func TestBusID(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:19:00.0": "0000:19:00.0", "00000000:DB:00.0": "0000:db:00.0", "00010000:01:00.0": "10000:01:00.0", "": "",
	} {
		if got := busID(in); got != want {
			t.Errorf("busID(%q) = %q, want %q", in, got, want)
		}
	}
}
