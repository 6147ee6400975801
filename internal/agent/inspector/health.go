package inspector

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"gpu-operator/internal/agent/probe"
)

// stuckAfter is how long no look at the host may take before the process counts as
// stuck: reads of a hung file system block for ever.
const stuckAfter = 4 * rescan

// Health answers the kubelet's probes. Alive means that the host was looked at
// lately, ready that the cluster has what was seen.
type Health struct {
	mu    sync.Mutex
	now   func() time.Time
	seen  time.Time
	wrote bool
}

// NewHealth returns a Health that was just looked at.
func NewHealth(now func() time.Time) *Health { return &Health{now: now, seen: now()} }

// Handler serves /healthz and /readyz.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	probe.Handle(mux, map[string]func() error{"/healthz": h.alive, "/readyz": h.ready})
	return mux
}

// looked records a look at the host.
func (h *Health) looked(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = t
}

// written records that the cluster has what was seen.
func (h *Health) written() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrote = true
}

// alive fails when the last look is too long ago.
func (h *Health) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.seen); age > stuckAfter {
		return fmt.Errorf("the host was last looked at %s ago, want at most %s", age.Round(time.Second), stuckAfter)
	}
	return nil
}

// ready fails until the status was written or found to be right.
func (h *Health) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.wrote {
		return fmt.Errorf("the GPUNode's status was not written yet")
	}
	return nil
}
