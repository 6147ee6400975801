package deviceplugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpu-operator/internal/device"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/gpu"
)

// speed is how much faster the tests' clock runs.
const speed = 20

// fastClock runs speed times as fast as the machine's.
type fastClock struct{ start time.Time }

func (c fastClock) Now() time.Time { return c.start.Add(time.Since(c.start) * speed) }

func (c fastClock) After(d time.Duration) <-chan time.Time { return time.After(d / speed) }

// fakeGPUs is a driver that says what it is told to.
type fakeGPUs struct {
	mu     sync.Mutex
	inv    facts.Inventory
	err    error
	probes map[string]facts.Probe
	xids   chan facts.XID
}

func newGPUs(n int) *fakeGPUs {
	g := &fakeGPUs{probes: map[string]facts.Probe{}, xids: make(chan facts.XID)}
	for i := range n {
		g.inv.Devices = append(g.inv.Devices, facts.Device{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-%d", i), BusID: fmt.Sprintf("0000:%02x:00.0", i), NUMA: 2 * i / n, State: facts.DevicePresent,
		})
	}
	return g
}

func (g *fakeGPUs) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *fakeGPUs) Inventory(context.Context) (facts.Inventory, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inv, g.err
}

func (g *fakeGPUs) Probe(_ context.Context, uuid string) (facts.Probe, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.probes[uuid]; ok {
		return p, g.err
	}
	return facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryUnknown}, g.err
}

func (g *fakeGPUs) Watch(ctx context.Context, sink func(facts.XID), _ func(gpu.Unwatched)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case x := <-g.xids:
			sink(x)
		}
	}
}

// kubelet is a fake one: it takes registrations and, unless told otherwise, opens the
// stream as the real one does.
type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	t      *testing.T
	dir    string
	server *grpc.Server
	// deaf: registrations are taken and no stream is opened.
	deaf bool

	registered chan *v1beta1.RegisterRequest
	lists      chan string
	mu         sync.Mutex
	cut        []context.CancelFunc
}

// startKubelet makes the socket and serves; old sockets are removed first, as a
// starting kubelet does.
func startKubelet(t *testing.T, dir string) *kubelet {
	t.Helper()
	k := &kubelet{t: t, dir: dir, registered: make(chan *v1beta1.RegisterRequest, 100), lists: make(chan string, 1000)}
	old, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range old {
		_ = os.Remove(s) // somebody else may have been first
	}
	l, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k.server = grpc.NewServer()
	v1beta1.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(l) }()
	t.Cleanup(k.stop)
	return k
}

func (k *kubelet) stop() {
	k.cutStreams()
	k.server.Stop()
}

// Register takes a registration.
func (k *kubelet) Register(_ context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	if !k.deaf {
		ctx, cancel := context.WithCancel(context.Background())
		k.mu.Lock()
		k.cut = append(k.cut, cancel)
		k.mu.Unlock()
		go k.stream(ctx, r)
	}
	k.registered <- r
	return &v1beta1.Empty{}, nil
}

// dial opens a connection to a plugin.
func (k *kubelet) dial(endpoint string) (v1beta1.DevicePluginClient, func()) {
	c, err := grpc.NewClient("unix:"+filepath.Join(k.dir, endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		k.t.Error(err)
		return nil, func() {}
	}
	return v1beta1.NewDevicePluginClient(c), func() { _ = c.Close() }
}

// stream reads lists until it is cut.
func (k *kubelet) stream(ctx context.Context, r *v1beta1.RegisterRequest) {
	c, closeConn := k.dial(r.Endpoint)
	defer closeConn()
	s, err := c.ListAndWatch(ctx, &v1beta1.Empty{})
	if err != nil {
		return
	}
	for {
		list, err := s.Recv()
		if err != nil {
			return
		}
		words := []string{strings.TrimPrefix(r.ResourceName, "nvidia.com/") + ":"}
		for _, d := range list.Devices {
			w := d.ID
			if d.Health != v1beta1.Healthy {
				w = "!" + w
			}
			for _, n := range d.GetTopology().GetNodes() {
				w += fmt.Sprintf("@%d", n.ID)
			}
			words = append(words, w)
		}
		k.lists <- strings.Join(words, " ")
	}
}

// cutStreams ends all streams, the socket stays.
func (k *kubelet) cutStreams() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, cut := range k.cut {
		cut()
	}
	k.cut = nil
}

// wait returns the next registration.
func (k *kubelet) wait() *v1beta1.RegisterRequest {
	k.t.Helper()
	select {
	case r := <-k.registered:
		return r
	case <-time.After(10 * time.Second):
		k.t.Fatal("no registration within 200 s of the test's clock")
		return nil
	}
}

// hears waits until the kubelet hears a list.
func (k *kubelet) hears(want string) {
	k.t.Helper()
	deadline := time.After(10 * time.Second)
	var heard []string
	for {
		select {
		case l := <-k.lists:
			if l == want {
				return
			}
			heard = append(heard, l)
		case <-deadline:
			k.t.Fatalf("heard %q, want %q", heard, want)
		}
	}
}

// start runs an agent in a directory and returns it; CDI specs are in dir/cdi.
func start(t *testing.T, g *fakeGPUs, dir string, ways ...device.Way) *Agent {
	t.Helper()
	table, err := device.NewTable("", "")
	if err != nil {
		t.Fatal(err)
	}
	clock := fastClock{time.Now()}
	n := 0
	a := &Agent{
		GPUs: g, Clock: clock, Health: NewHealth(clock.Now), Jitter: func() float64 { return 0.5 },
		NewID: func() string { n++; return fmt.Sprintf("request-%d", n) },
		Settings: Settings{
			Strategy: device.MIGMixed, XIDs: table, PluginDir: dir, CDIDirs: []string{filepath.Join(dir, "cdi")},
			Asks: device.Asks{Ways: ways, AnnotationPrefix: "cdi.k8s.io/"},
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "nvidia-*.sock")); len(left) > 0 { // the pattern is fixed
			t.Errorf("sockets left behind: %v", left)
		}
	})
	return a
}

// writeCDI writes a spec that lists devices.
func writeCDI(t *testing.T, dir, kind string, devices ...string) {
	t.Helper()
	text := "cdiVersion: 0.5.0\nkind: " + kind + "\ndevices:\n"
	for _, d := range devices {
		text += "- name: " + d + "\n  containerEdits: {env: [A=B]}\n"
	}
	if err := os.MkdirAll(filepath.Join(dir, "cdi"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cdi", strings.ReplaceAll(kind, "/", "-")+".yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
