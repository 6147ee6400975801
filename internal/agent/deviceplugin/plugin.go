package deviceplugin

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpu-operator/internal/device"
	"gpu-operator/internal/names"
)

const (
	// poll is the period of looking at the sockets. Looking is two calls to stat, and
	// unlike a watch it also works when the whole directory is replaced.
	poll = 500 * time.Millisecond
	// farewell is how long the kubelet may take to hear that a resource is gone.
	farewell = 2 * time.Second
)

// plugin is the server of one resource.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer

	name     string
	settings Settings
	clock    Clock
	newID    func() string
	jitter   func() float64
	health   *Health
	path     string
	wake     chan struct{}
	gone     chan struct{}
	retired  sync.Once

	mu       sync.Mutex
	resource device.Resource
	unfit    map[string]string
	list     []*v1beta1.Device
	changed  chan struct{}
	// told is closed when the list at hand was sent on a stream.
	told   chan struct{}
	link   link
	server *grpc.Server
	// tries counts registrations in a row that came to nothing.
	tries    int
	streamed time.Time
	lastSaid string
}

func newPlugin(name string, s Settings, c Clock, newID func() string, jitter func() float64, h *Health) *plugin {
	base := "nvidia-" + strings.TrimPrefix(name, names.Group+"/") + ".sock"
	return &plugin{
		name: name, settings: s, clock: c, newID: newID, jitter: jitter, health: h,
		path: filepath.Join(s.PluginDir, base), wake: make(chan struct{}, 1), gone: make(chan struct{}),
		changed: make(chan struct{}), told: make(chan struct{}),
	}
}

// set replaces what is offered; the kubelet hears of it when something differs.
func (p *plugin) set(ctx context.Context, r device.Resource, unfit map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range r.Units {
		switch before, now := p.unfit[u.ID], unfit[u.ID]; {
		case now != "" && before != now:
			logr.FromContextOrDiscard(ctx).Info("A device gets no work", "device", u.ID, "why", now)
		case now == "" && before != "":
			logr.FromContextOrDiscard(ctx).Info("A device is fit again", "device", u.ID, "was", before)
		}
	}
	list := devices(r, unfit)
	p.resource, p.unfit = r, unfit
	if !equal(list, p.list) {
		p.list = list
		close(p.changed)
		p.changed, p.told = make(chan struct{}), make(chan struct{})
	}
}

// devices is a resource as the kubelet is told.
func devices(r device.Resource, unfit map[string]string) []*v1beta1.Device {
	out := []*v1beta1.Device{}
	for _, u := range r.Units {
		d := &v1beta1.Device{ID: u.ID, Health: v1beta1.Healthy}
		if unfit[u.ID] != "" {
			d.Health = v1beta1.Unhealthy
		}
		if u.NUMA >= 0 {
			d.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(u.NUMA)}}}
		}
		out = append(out, d)
	}
	return out
}

// equal says whether two lists tell the kubelet the same.
func equal(a, b []*v1beta1.Device) bool {
	if a == nil || b == nil || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].String() != b[i].String() {
			return false
		}
	}
	return true
}

// run keeps the way to the kubelet open until the context ends or the plugin retires.
func (p *plugin) run(ctx context.Context) {
	defer p.finish()
	for {
		p.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.gone:
			p.health.forget(p.name)
			return
		case <-p.wake:
		case <-p.clock.After(poll):
		}
	}
}

// look sees how the link is and does the next step.
func (p *plugin) look(ctx context.Context) {
	p.mu.Lock()
	p.link.found = socketAt(p.path)
	p.link.kubelet = socketAt(filepath.Join(p.settings.PluginDir, filepath.Base(names.KubeletSocket)))
	l, now := p.link, p.clock.Now()
	p.mu.Unlock()
	p.health.linked(p.name, l.streams > 0, l.kubelet != socket{}, now)
	switch next(l, now) {
	case stepListen:
		if err := p.listen(ctx); err != nil {
			p.report(ctx, err)
			return
		}
		p.look(ctx)
	case stepRegister:
		p.register(ctx, l.kubelet)
	case stepNothing:
	}
}

// listen makes the socket and serves on it.
func (p *plugin) listen(ctx context.Context) error {
	if old := p.unlink(); old != nil {
		old.Stop()
	}
	if err := removeSocket(p.path); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", p.path)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	// The file at the path may be another one's by the time that this listener closes.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, p)
	p.mu.Lock()
	p.server = server
	p.link.own = socketAt(p.path)
	p.link.found = p.link.own
	// The kubelet has to hear of a new socket.
	p.link.registered = socket{}
	p.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with an error when it is stopped
	return nil
}

// register tells the kubelet, and notes when to do so again if it comes to nothing.
func (p *plugin) register(ctx context.Context, kubelet socket) {
	p.mu.Lock()
	now := p.clock.Now()
	if !p.streamed.IsZero() && now.Sub(p.streamed) >= steady {
		p.tries = 0
	}
	p.link.notBefore = now.Add(pauseAfter(p.tries, p.jitter()))
	p.tries++
	p.link.ended = false
	p.mu.Unlock()
	err := register(ctx, p.settings.PluginDir, filepath.Base(p.path), p.name)
	p.mu.Lock()
	if err == nil {
		p.link.registered, p.link.registeredAt = kubelet, p.clock.Now()
	}
	p.mu.Unlock()
	p.report(ctx, err)
}

// report logs how a registration went, the same trouble once.
func (p *plugin) report(ctx context.Context, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("resource", p.name)
	p.mu.Lock()
	before := p.lastSaid
	p.lastSaid = ""
	if err != nil {
		p.lastSaid = err.Error()
	}
	p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		log.Info("Registered")
	case err.Error() != before:
		log.Info("Could not register, trying again", "error", err.Error())
	}
}

// retire tells the kubelet that nothing is left of the resource, and ends. Without
// it the node would go on listing the last count.
func (p *plugin) retire(ctx context.Context) {
	p.set(ctx, device.Resource{Name: p.name}, nil)
	p.mu.Lock()
	told, streams := p.told, p.link.streams
	p.mu.Unlock()
	if streams > 0 {
		select {
		case <-told:
		case <-ctx.Done():
		case <-p.clock.After(farewell):
		}
	}
	p.retired.Do(func() { close(p.gone) })
}

// finish ends the streams and stops serving. What was sent on a stream still reaches
// the kubelet: a server that is stopped at once would drop a last, empty list.
func (p *plugin) finish() {
	p.retired.Do(func() { close(p.gone) })
	server := p.unlink()
	if server == nil {
		return
	}
	over := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(over)
	}()
	select {
	case <-over:
	case <-p.clock.After(farewell):
		server.Stop()
	}
}

// unlink removes the socket if it is still ours, and returns the server behind it;
// nil: there is none.
func (p *plugin) unlink() *grpc.Server {
	p.mu.Lock()
	server, own := p.server, p.link.own
	p.server, p.link.own = nil, socket{}
	p.mu.Unlock()
	if server != nil && own == socketAt(p.path) {
		_ = removeSocket(p.path) // the kubelet clears what is left
	}
	return server
}
