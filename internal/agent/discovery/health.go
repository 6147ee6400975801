package discovery

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"gpu-operator/internal/agent/probe"
)

// stuck is how long no step may end before the process counts as stuck.
const stuck = 10 * time.Minute

// Health answers the kubelet's probes. Ready means that the labels were written in
// the life of this process, alive that steps still end.
type Health struct {
	mu     sync.Mutex
	now    func() time.Time
	period time.Duration
	ended  time.Time
	ok     bool
	err    error
}

// NewHealth returns the Health of an agent that looks once a period.
func NewHealth(now func() time.Time, period time.Duration) *Health {
	return &Health{now: now, period: period, ended: now()}
}

// Handler serves /healthz and /readyz.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	probe.Handle(mux, map[string]func() error{"/healthz": h.alive, "/readyz": h.ready})
	return mux
}

// done records that the cluster has the labels.
func (h *Health) done(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ok, h.err, h.ended = true, nil, now
}

// failed records that it may not.
func (h *Health) failed(err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.ended = err, now
}

// alive fails when no step has ended for too long.
func (h *Health) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.ended); h.period > 0 && age > h.period+stuck {
		return fmt.Errorf("the last look at the GPUs ended %s ago", age.Round(time.Second))
	}
	return nil
}

// ready fails until the labels were written or found to be right.
func (h *Health) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ok:
		return nil
	case h.err != nil:
		return h.err
	}
	return fmt.Errorf("the labels were not written yet")
}
