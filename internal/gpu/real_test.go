package gpu

import (
	"os"
	"testing"
	"time"
)

// TestRealGPU reads a machine's own GPUs; `make test-gpu` asks for it. A machine
// without a GPU or a driver fails it.
func TestRealGPU(t *testing.T) {
	if os.Getenv("GPU_REAL") == "" {
		t.Skip("GPU_REAL is not set: this test needs a machine with an NVIDIA GPU (make test-gpu)")
	}
	c := New(Options{Timeout: 10 * time.Second})
	defer c.Close()
	inv, err := c.Inventory(t.Context())
	if err != nil {
		t.Fatalf("reading the machine's GPUs: %v", err)
	}
	if len(inv.Devices) == 0 || inv.DriverVersion == "" {
		t.Fatalf("driver %q shows %d GPUs", inv.DriverVersion, len(inv.Devices))
	}
	for _, d := range inv.Devices {
		if !d.Present() || d.UUID == "" {
			t.Errorf("GPU %d: %+v", d.Index, d)
		}
	}
}
