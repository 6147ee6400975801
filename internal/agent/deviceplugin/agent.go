package deviceplugin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"gpu-operator/internal/device"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/gpu"
)

const (
	// look is the period of looking at the GPUs and at the CDI specs; an error that
	// the driver reports is acted upon at once.
	look = 10 * time.Second
	// relook is how many periods pass between full inventories.
	relook = 6
	// startFirst and startLast bound the pauses while the driver is waited for.
	startFirst = time.Second
	startLast  = 15 * time.Second
	// misses is how many looks in a row the whole driver may fail to answer before
	// its GPUs count as lost.
	misses = 2
)

// GPUs is the driver.
type GPUs interface {
	Inventory(ctx context.Context) (facts.Inventory, error)
	Probe(ctx context.Context, uuid string) (facts.Probe, error)
	Watch(ctx context.Context, sink func(facts.XID), without func(gpu.Unwatched)) error
}

// Clock is the time; tests turn it by hand.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Settings are what people choose.
type Settings struct {
	// Strategy is how MIG partitions are offered.
	Strategy device.Strategy
	// Asks are how a container gets its devices; Request is filled in per request.
	Asks device.Asks
	// XIDs is the table of error codes in force; nil: errors do not count.
	XIDs device.Table
	// PluginDir is the directory of the kubelet's device plugin sockets.
	PluginDir string
	// CDIDirs are where CDI specs are looked for.
	CDIDirs []string
}

// Agent offers GPUs to the kubelet.
type Agent struct {
	GPUs     GPUs
	Settings Settings
	Clock    Clock
	// NewID returns a name that no other request has.
	NewID func() string
	// Jitter returns a number in [0,1).
	Jitter func() float64
	// Health is told what goes on.
	Health *Health

	plugins  map[string]*plugin
	running  sync.WaitGroup
	inv      facts.Inventory
	health   map[string]device.Health
	missed   int
	lastSaid map[string]string
}

// Run works until the context ends, or until only a new process can go on.
func (a *Agent) Run(ctx context.Context) error {
	a.plugins, a.health, a.lastSaid = map[string]*plugin{}, map[string]device.Health{}, map[string]string{}
	ctx, stop := context.WithCancel(ctx)
	defer a.running.Wait()
	defer stop()
	if err := a.first(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	xids := make(chan facts.XID, 64)
	if a.Settings.XIDs != nil {
		a.running.Go(func() { a.listen(ctx, xids) })
	}
	// The timer outlives events: a stream of errors must not put off the next look.
	next, n := a.Clock.After(look), 1
	for {
		a.offer(ctx)
		select {
		case <-ctx.Done():
			return nil
		case x := <-xids:
			a.xid(ctx, x)
		case <-next:
			if err := a.again(ctx, n%relook == 0); err != nil {
				return err
			}
			next, n = a.Clock.After(look), n+1
		}
	}
}

// first waits for the driver and looks at every GPU once, so that none is offered
// of which the driver knows better.
func (a *Agent) first(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	for pause := startFirst; ; pause = min(2*pause, startLast) {
		inv, err := a.GPUs.Inventory(ctx)
		switch {
		case err == nil && len(inv.Devices) > 0:
			a.inv = inv
			a.Health.waiting("")
			log.Info("Found GPUs", "count", len(inv.Devices), "driver", inv.DriverVersion)
			return a.probe(ctx)
		case errors.Is(err, gpu.ErrOtherDriver):
			return err
		case err == nil:
			a.say(ctx, "driver", "The driver shows no GPU, looking again")
			a.Health.waiting("the driver shows no GPU")
		default:
			a.say(ctx, "driver", "Waiting for the driver: "+err.Error())
			a.Health.waiting(err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.Clock.After(pause):
		}
	}
}

// again looks at the GPUs; now and then with a whole inventory, which sees
// partitions come and go.
func (a *Agent) again(ctx context.Context, whole bool) error {
	if whole {
		inv, err := a.GPUs.Inventory(ctx)
		switch {
		case errors.Is(err, gpu.ErrOtherDriver):
			return err
		case err == nil && len(inv.Devices) > 0:
			a.inv = inv
		}
	}
	return a.probe(ctx)
}

// probe asks each GPU on its own how it is.
func (a *Agent) probe(ctx context.Context) error {
	devices := a.inv.Devices
	probes, errs := make([]facts.Probe, len(devices)), make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		if d.UUID != "" {
			all.Go(func() { probes[i], errs[i] = a.GPUs.Probe(ctx, d.UUID) })
		}
	}
	all.Wait()
	if ended(ctx) {
		return nil
	}
	err := errors.Join(errs...)
	if errors.Is(err, gpu.ErrOtherDriver) {
		return err
	}
	if err == nil {
		a.missed = 0
	} else {
		a.missed++
		a.say(ctx, "driver", "The driver does not answer: "+err.Error())
	}
	now := a.Clock.Now()
	for i, d := range devices {
		switch {
		case d.UUID == "":
			continue
		case errs[i] == nil:
		case a.missed < misses:
			continue
		default:
			probes[i] = facts.Probe{State: facts.DeviceLost, Fault: errs[i].Error(), Action: facts.RecoveryUnknown}
		}
		a.health[d.UUID] = device.AfterProbe(a.health[d.UUID], probes[i], now)
	}
	return nil
}

// xid takes in an error that the driver reported.
func (a *Agent) xid(ctx context.Context, x facts.XID) {
	class := a.Settings.XIDs.Class(x.Code)
	logr.FromContextOrDiscard(ctx).Info("The driver reported an error", "gpu", x.UUID, "xid", x.Code, "class", class)
	a.health[x.UUID] = device.AfterXID(a.health[x.UUID], x, a.Settings.XIDs, a.Clock.Now())
}

// listen hands on the errors that the driver reports, also after the driver was away.
func (a *Agent) listen(ctx context.Context, out chan<- facts.XID) {
	log := logr.FromContextOrDiscard(ctx)
	sink := func(x facts.XID) {
		select {
		case out <- x:
		case <-ctx.Done():
		}
	}
	without := func(u gpu.Unwatched) {
		log.Info("Errors of a GPU are not reported any more; it is looked at periodically", "gpu", u.UUID, "why", u.Why)
	}
	for ctx.Err() == nil {
		if err := a.GPUs.Watch(ctx, sink, without); err != nil && ctx.Err() == nil {
			log.Info("Could not watch for errors, trying again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-a.Clock.After(look):
		}
	}
}

// offer brings what the kubelet is told in line with what is known.
func (a *Agent) offer(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	resources, err := device.Resources(a.inv, a.Settings.Strategy)
	if err != nil {
		a.say(ctx, "strategy", "The GPUs cannot be offered: "+err.Error())
		a.Health.waiting(err.Error())
		// What is offered already stands: containers run on it.
		return
	}
	named := a.named(ctx)
	for _, r := range resources {
		p := a.plugins[r.Name]
		if p == nil {
			p = newPlugin(r.Name, a.Settings, a.Clock, a.NewID, a.Jitter, a.Health)
			a.plugins[r.Name] = p
			p.set(ctx, r, a.unfit(r, named))
			log.Info("Offering", "resource", r.Name, "count", len(r.Units))
			a.running.Go(func() { p.run(ctx) })
			continue
		}
		p.set(ctx, r, a.unfit(r, named))
	}
	for _, name := range slices.Sorted(maps.Keys(a.plugins)) {
		if !slices.ContainsFunc(resources, func(r device.Resource) bool { return r.Name == name }) {
			log.Info("Taking back", "resource", name)
			a.plugins[name].retire(ctx)
			delete(a.plugins, name)
		}
	}
}

// named returns the names of devices in CDI specs, or nil when CDI is not used.
func (a *Agent) named(ctx context.Context) map[string]bool {
	if !device.CDI(a.Settings.Asks.Ways) {
		return nil
	}
	named, err := readCDI(a.Settings.CDIDirs)
	if err != nil {
		a.say(ctx, "cdi", "Reading CDI specs: "+err.Error())
	}
	return named
}

// unfit returns why units of a resource get no work, by id.
func (a *Agent) unfit(r device.Resource, named map[string]bool) map[string]string {
	out := map[string]string{}
	for _, u := range r.Units {
		if ok, f := a.health[u.GPU].Fit(u.GPUInstance); !ok {
			out[u.ID] = string(f.Class) + ": " + f.Message
		} else if named != nil && !named[u.ID] {
			out[u.ID] = "NotInCDISpec: no CDI spec of kind nvidia.com/gpu lists it, so a container could not get it"
		}
	}
	return out
}

// say logs a message about something when it is another than the last one.
func (a *Agent) say(ctx context.Context, about, message string) {
	if a.lastSaid[about] != message {
		a.lastSaid[about] = message
		logr.FromContextOrDiscard(ctx).Info(message)
	}
}

// ended says whether the agent was told to stop; what fails then is no failure.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
