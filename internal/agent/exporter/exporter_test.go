package exporter

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/gpu"
	"gpu-operator/sim/rig"
)

var update = flag.Bool("update", false, "write the golden files")

// manual is a clock that a test moves.
type manual struct {
	mu    sync.Mutex
	now   time.Time
	ticks chan time.Time
}

func newClock() *manual { return &manual{now: time.Unix(1700000000, 0), ticks: make(chan time.Time)} }

func (m *manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *manual) After(time.Duration) <-chan time.Time { return m.ticks }

func (m *manual) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// podResources is the kubelet's side.
type podResources struct {
	v1.UnimplementedPodResourcesListerServer
	answer *v1.ListPodResourcesResponse
}

func (p *podResources) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	return p.answer, nil
}

// pod is a pod with one container that has devices of a resource.
func pod(namespace, name, resource string, ids ...string) *v1.PodResources {
	return &v1.PodResources{Namespace: namespace, Name: name, Containers: []*v1.ContainerResources{
		{Name: "main", Devices: []*v1.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}},
	}}
}

// serveKubelet serves an answer on a socket.
func serveKubelet(t *testing.T, answer *v1.ListPodResourcesResponse) (*Kubelet, *grpc.Server) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(s, &podResources{answer: answer})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	k, err := NewKubelet(socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k, s
}

// scrape returns a path's answer.
func scrape(a *Agent, path string) (int, string) {
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// begin makes an agent's state without its loop.
func begin(a *Agent) *Agent {
	a.xids, a.lastSaid = map[string]int{}, map[string]string{}
	a.started.Store(a.Clock.Now().UnixNano())
	return a
}

// TestMetrics is the whole page of a simulated machine, read through NVML.
func TestMetrics(t *testing.T) {
	m := rig.New(t, "../../../sim", "H100-SXM5-80GB", "gpu-1", 2)
	m.Load(t)
	c := gpu.New(gpu.Options{Library: m.Library(), Timeout: 300 * time.Millisecond})
	t.Cleanup(c.Close)
	inv, err := c.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k, _ := serveKubelet(t, &v1.ListPodResourcesResponse{PodResources: []*v1.PodResources{
		pod("team-a", "train-0", "nvidia.com/gpu", inv.Devices[1].UUID), pod("team-a", "nic", "example.com/nic", inv.Devices[0].UUID),
	}})
	counters, err := DefaultCounters()
	if err != nil {
		t.Fatal(err)
	}
	known, unknown := Split(append(counters, Counter{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Graphics."}), gpu.Fields())
	a := begin(&Agent{GPUs: c, Pods: k, View: View{Counters: known, Unavailable: unknown, Hostname: "gpu-1", Kubernetes: true}, Period: time.Second, Clock: newClock()})
	if code, _ := scrape(a, "/health"); code != http.StatusServiceUnavailable {
		t.Errorf("/health before the first collection: %d", code)
	}
	m.Set(t, 0, "power=123.5", "energy=0")
	collect(t, a)
	_, page := scrape(a, "/metrics")
	golden(t, "h100.txt", page)
	lint(t, page)
	if code, _ := scrape(a, "/health"); code != http.StatusOK {
		t.Errorf("/health: %d", code)
	}

	t.Run("a hanging GPU loses its readings, keeps its place and harms no other", func(t *testing.T) {
		m.Set(t, 1, "hang=true")
		t.Cleanup(func() { m.Set(t, 1, "hang=false") })
		start := time.Now()
		collect(t, a)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the collection took %s", took)
		}
		_, page := scrape(a, "/metrics")
		for line, want := range map[string]bool{
			`(?m)^gpu_up\{gpu="1",UUID="` + inv.Devices[1].UUID + `".*\} 0$`: true,
			`(?m)^gpu_up\{gpu="0".*\} 1$`:                                    true,
			`(?m)^gpu_present 1$`:                                            true,
			`(?m)^gpu_expected 2$`:                                           true,
			`(?m)^DCGM_FI_DEV_GPU_TEMP\{gpu="0".*\} 29$`:                     true,
			`(?m)^DCGM_FI_DEV_GPU_TEMP\{gpu="1"`:                             false,
		} {
			if got := regexp.MustCompile(line).MatchString(page); got != want {
				t.Errorf("%s on the page: %t, want %t", line, got, want)
			}
		}
	})
}

// collect takes one snapshot.
func collect(t *testing.T, a *Agent) {
	t.Helper()
	if err := a.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// golden compares a page, numbers that are never the same taken out.
func golden(t *testing.T, name, page string) {
	t.Helper()
	page = regexp.MustCompile(`(?m)^(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION.*) \d+$`).ReplaceAllString(page, "$1 N")
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

// lint has Prometheus's own linter read the page. The names of the ecosystem's
// metrics and labels are given; all else has to be in order.
func lint(t *testing.T, page string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		given := strings.HasPrefix(p.Metric, "DCGM_") || p.Metric == "gpu_up" && strings.HasPrefix(p.Text, "label names")
		if !given {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// fakes are driver and kubelet in one.
type fakes struct {
	samples   []facts.Sample
	err       error
	owners    map[string]Owner
	ownersErr error
}

func (f *fakes) Samples(context.Context, []string) ([]facts.Sample, error) { return f.samples, f.err }

func (f *fakes) Owners(context.Context) (map[string]Owner, error) { return f.owners, f.ownersErr }

func (f *fakes) Watch(ctx context.Context, sink func(facts.XID), _ func(gpu.Unwatched)) error {
	sink(facts.XID{UUID: "GPU-0", Code: 79, GPUInstance: facts.WholeGPU})
	<-ctx.Done()
	return ctx.Err()
}

// agent is one that reads fakes with one GPU.
func agent(f *fakes) (*Agent, *manual) {
	f.samples = []facts.Sample{{Index: 0, Minor: 0, UUID: "GPU-0", BusID: "0000:19:00.0", Product: `A "quoted" \ name`, State: facts.DevicePresent, Values: map[string]float64{"DCGM_FI_DEV_GPU_TEMP": 40}}}
	clock := newClock()
	return begin(&Agent{GPUs: f, Pods: f, Clock: clock, Period: time.Second, View: View{
		Counters: []Counter{{"DCGM_FI_DEV_GPU_TEMP", "gauge", "T."}, {xidField, "gauge", "X."}}, Kubernetes: true,
	}}), clock
}

const temp = `DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",pci_bus_id="00000000:19:00.0",device="nvidia0",modelName="A \"quoted\" \\ name",`

func TestAttribution(t *testing.T) {
	f := &fakes{owners: map[string]Owner{"GPU-0": {"ns", "p", "c"}}}
	a, _ := agent(f)
	owned, free := temp+`container="c",namespace="ns",pod="p"} 40`, temp+`container="",namespace="",pod=""} 40`
	for _, step := range []struct {
		what string
		do   func()
		want string
		up   string
	}{
		{"the kubelet answers", func() {}, owned, "1"},
		{"it fails once: what it said stands", func() { f.ownersErr = errors.New("refused") }, owned, "0"},
		{"it fails again", func() {}, free, "0"},
		{"it is back", func() { f.ownersErr = nil }, owned, "1"},
		{"the pod ends: the series stays", func() { f.owners = nil }, free, "1"},
	} {
		step.do()
		collect(t, a)
		_, page := scrape(a, "/metrics")
		if !strings.Contains(page, step.want) || !strings.Contains(page, "gpu_exporter_podresources_up "+step.up) {
			t.Errorf("%s: want %s and podresources_up %s in\n%s", step.what, step.want, step.up, page)
		}
	}
}

func TestDriverGoes(t *testing.T) {
	f := &fakes{}
	a, _ := agent(f)
	collect(t, a)
	f.err = errors.New("the driver is not loaded")
	collect(t, a)
	_, page := scrape(a, "/metrics")
	for _, want := range []string{`gpu_up{gpu="0",UUID="GPU-0"`, "gpu_present 0\n", "gpu_expected 1\n", "gpu_exporter_driver_up 0\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in\n%s", want, page)
		}
	}
	if strings.Contains(page, "DCGM_FI_DEV_GPU_TEMP") {
		t.Errorf("readings of a driver that is away:\n%s", page)
	}
	if code, _ := scrape(a, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", code)
	}
	f.err = gpu.ErrOtherDriver
	if err := a.collect(t.Context()); !errors.Is(err, gpu.ErrOtherDriver) {
		t.Errorf("another driver: %v", err)
	}
}

// TestRun: the loop collects, keeps the last error, and ends when told.
func TestRun(t *testing.T) {
	f := &fakes{}
	a, clock := agent(f)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case clock.ticks <- clock.Now():
		case <-deadline:
			t.Fatal("the error never showed")
		}
		if _, page := scrape(a, "/metrics"); strings.Contains(page, `err_code="79",err_msg="the GPU has fallen off the bus"} 79`) {
			break
		}
	}
	if code, _ := scrape(a, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	clock.add(stuckMin + time.Second)
	if code, _ := scrape(a, "/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("/healthz of a stuck exporter: %d", code)
	}
}

func TestOwners(t *testing.T) {
	got := owners(&v1.ListPodResourcesResponse{PodResources: []*v1.PodResources{
		pod("b", "late", "nvidia.com/gpu", "GPU-0::1"), pod("a", "early", "nvidia.com/gpu.shared", "GPU-0::0"),
		pod("a", "part", "nvidia.com/mig-1g.10gb", "MIG-1"), pod("a", "nic", "example.com/nic", "GPU-9"), pod("a", "renamed", "example.com/a100", "GPU-2", "GPU-3"),
	}}, []string{"example.com/a100"})
	want := map[string]Owner{"GPU-0": {"a", "early", "main"}, "MIG-1": {"a", "part", "main"}, "GPU-2": {"a", "renamed", "main"}, "GPU-3": {"a", "renamed", "main"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestKubeletErrors(t *testing.T) {
	k, err := NewKubelet(filepath.Join(t.TempDir(), "kubelet.sock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Owners(t.Context()); err == nil || !strings.Contains(err.Error(), "kubelet.sock") {
		t.Errorf("no socket: %v", err)
	}
	k, server := serveKubelet(t, &v1.ListPodResourcesResponse{})
	server.Stop()
	_ = os.Remove(k.socket) // the server may have removed it
	if err := os.WriteFile(k.socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Owners(t.Context()); err == nil {
		t.Error("a file that is no socket answers")
	}
}

func TestParseCounters(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []Counter
		err  string
	}{
		"comments, blanks and commas": {"# x\n\n  A_B,  gauge , help, with commas.\nC, label, L\n", []Counter{{"A_B", "gauge", "help, with commas."}, {"C", "label", "L"}}, ""},
		"quotes":                      {`A, gauge, the "best"` + "\n", []Counter{{"A", "gauge", `the "best"`}}, ""},
		"too few columns":             {"A, gauge, h\nB, gauge\n", nil, "line 2: 2 columns"},
		"unknown type":                {"A, gage, h\n", nil, `line 1: type "gage" of A`},
		"no name":                     {"a-b, gauge, h\n", nil, `"a-b" is not a field's name`},
		"twice":                       {"A, gauge, h\nA, gauge, h\n", nil, `line 2: field "A" stands twice`},
		"empty":                       {"# nothing\n", nil, "names no field"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseCounters(tc.text)
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || tc.err == "" && err != nil {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
		})
	}
}

// BenchmarkScrape is a scrape of a node with eight GPUs.
func BenchmarkScrape(b *testing.B) {
	counters, err := DefaultCounters()
	if err != nil {
		b.Fatal(err)
	}
	s := Snapshot{Driver: true}
	for i := range 8 {
		g := facts.Sample{Index: i, UUID: "GPU", State: facts.DevicePresent, Values: map[string]float64{}}
		for _, c := range counters {
			g.Values[c.Field] = float64(i)
		}
		s.Samples = append(s.Samples, g)
	}
	for b.Loop() {
		if err := Render(io.Discard, s, View{Counters: counters, Kubernetes: true}); err != nil {
			b.Fatal(err)
		}
	}
}
