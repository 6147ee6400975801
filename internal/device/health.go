package device

import (
	"fmt"
	"maps"
	"time"

	"gpu-operator/internal/facts"
)

// quiet is how long a GPU with a transient error must have had no further error
// before it gets work again.
const quiet = 60 * time.Second

// Health is what is known of one GPU's fitness. The zero value is a fit GPU.
type Health struct {
	// faults are the faults that stand. Those of different classes stand beside each
	// other, because each goes away by evidence of its own.
	faults map[place]Fault
}

// place is where a fault stands.
type place struct {
	instance int
	class    Class
}

// Fault is why a GPU or a partition gets no new work.
type Fault struct {
	// Class is what the fault means.
	Class Class
	// Code is the driver's error code; 0: a look at the GPU found it.
	Code int
	// Message says it in words.
	Message string
	// Since is when it was seen first, Last when last.
	Since, Last time.Time
}

// Fit says whether the unit with a GPU instance may get new work, and names the
// worst fault if not.
func (h Health) Fit(instance int) (bool, Fault) {
	for _, class := range []Class{ClassReboot, ClassLost, ClassReset, ClassTransient} {
		for _, i := range []int{facts.WholeGPU, instance} {
			if f, ok := h.faults[place{i, class}]; ok {
				return false, f
			}
		}
	}
	return true, Fault{}
}

// AfterXID returns the health after the driver reported an error. An error of an
// application changes nothing; another one of a class that stands renews it.
func AfterXID(h Health, x facts.XID, t Table, now time.Time) Health {
	class := t.Class(x.Code)
	if class == ClassApplication {
		return h
	}
	return h.with(x.GPUInstance, Fault{Class: class, Code: x.Code, Message: fmt.Sprintf("the driver reported XID %d", x.Code), Since: now, Last: now})
}

// AfterProbe returns the health after a fresh look at the GPU. A look can find a
// fault, and only a look takes one away.
func AfterProbe(h Health, p facts.Probe, now time.Time) Health {
	switch {
	case p.State != facts.DevicePresent:
		return h.with(facts.WholeGPU, Fault{Class: ClassLost, Message: p.Fault, Since: now, Last: now})
	case p.Action == facts.RecoveryReboot || p.Action == facts.RecoverySystemReboot:
		return h.with(facts.WholeGPU, Fault{Class: ClassReboot, Message: "the driver says that the node has to be rebooted", Since: now, Last: now})
	case p.Action > facts.RecoveryNone:
		return h.with(facts.WholeGPU, Fault{Class: ClassReset, Message: fmt.Sprintf("the driver says that the GPU needs recovery action %d", p.Action), Since: now, Last: now})
	}
	out := Health{faults: map[place]Fault{}}
	for at, f := range h.faults {
		if !recovered(f, p.Action, now) {
			out.faults[at] = f
		}
	}
	return out
}

// recovered says whether a fault is over for a GPU that answers and of which the
// driver says that nothing has to be done, or cannot say.
func recovered(f Fault, action facts.RecoveryAction, now time.Time) bool {
	known := action == facts.RecoveryNone
	calm := now.Sub(f.Last) >= quiet
	switch f.Class {
	case ClassTransient:
		return calm
	case ClassLost:
		// A GPU that was only slow is back as soon as it answers.
		return f.Code == 0 || known || calm
	case ClassReset:
		return known
	case ClassReboot:
		return known && f.Code == 0
	case ClassApplication:
	}
	return true
}

// with returns the health with one more fault. One that stands already keeps the
// time at which it began.
func (h Health) with(instance int, f Fault) Health {
	out := Health{faults: map[place]Fault{}}
	maps.Copy(out.faults, h.faults)
	at := place{instance, f.Class}
	if old, ok := out.faults[at]; ok {
		f.Since = old.Since
		if f.Code == 0 {
			f.Code = old.Code
		}
	}
	out.faults[at] = f
	return out
}
