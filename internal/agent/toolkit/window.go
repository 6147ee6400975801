package toolkit

import "time"

// window limits how often something may happen in a stretch of time.
type window struct {
	limit int
	per   time.Duration
	times []time.Time
}

// full says whether the limit was reached in the time before now.
func (w *window) full(now time.Time) bool {
	n := 0
	for _, t := range w.times {
		if now.Sub(t) < w.per {
			n++
		}
	}
	return n >= w.limit
}

// add records that it happened now, and forgets what is too old to count.
func (w *window) add(now time.Time) {
	kept := w.times[:0]
	for _, t := range w.times {
		if now.Sub(t) < w.per {
			kept = append(kept, t)
		}
	}
	w.times = append(kept, now)
}
