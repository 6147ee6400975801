package deviceplugin

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"gpu-operator/internal/agent/probe"
)

// unheard is how long the kubelet may go without a stream before the process counts
// as stuck: registering again has not helped until then.
const unheard = 60 * time.Second

// Health answers the kubelet's probes. Ready means that the kubelet listens to every
// resource; alive that it does, or lately did, or cannot because it is not there.
type Health struct {
	mu    sync.Mutex
	now   func() time.Time
	why   string
	since map[string]time.Time // resource -> when it was last heard, zero: it is heard now
}

// NewHealth returns a Health that waits for the driver.
func NewHealth(now func() time.Time) *Health {
	return &Health{now: now, why: "the GPUs were not looked at yet", since: map[string]time.Time{}}
}

// Handler serves /healthz and /readyz.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	probe.Handle(mux, map[string]func() error{"/healthz": h.alive, "/readyz": h.ready})
	return mux
}

// waiting records what is waited for; empty: nothing.
func (h *Health) waiting(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

// linked records how the kubelet stands to a resource.
func (h *Health) linked(resource string, stream, kubelet bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.since[resource]
	switch {
	case stream:
		h.since[resource] = time.Time{}
	case !known || last.IsZero() || !kubelet:
		h.since[resource] = now
	}
}

// forget drops a resource that is not offered any more.
func (h *Health) forget(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.since, resource)
}

// alive fails when the kubelet has not listened for too long.
func (h *Health) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for resource, since := range h.since {
		if age := h.now().Sub(since); !since.IsZero() && age > unheard {
			return fmt.Errorf("the kubelet has not listened to %s for %s, want at most %s", resource, age.Round(time.Second), unheard)
		}
	}
	return nil
}

// ready fails until the kubelet listens to all resources.
func (h *Health) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != "" {
		return fmt.Errorf("waiting: %s", h.why)
	}
	if len(h.since) == 0 {
		return fmt.Errorf("nothing is offered yet")
	}
	for resource, since := range h.since {
		if !since.IsZero() {
			return fmt.Errorf("the kubelet does not listen to %s", resource)
		}
	}
	return nil
}
