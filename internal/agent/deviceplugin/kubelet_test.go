package deviceplugin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpu-operator/internal/device"
	"gpu-operator/internal/facts"
)

func TestNext(t *testing.T) {
	a, b := socket{inode: 1, sec: 1}, socket{inode: 2, sec: 2}
	now := time.Unix(1e9, 0)
	for name, tc := range map[string]struct {
		l    link
		want step
	}{
		"at the start":                     {link{}, stepListen},
		"own socket gone":                  {link{own: a, kubelet: b, registered: b, streams: 1}, stepListen},
		"own socket replaced":              {link{own: a, found: b, kubelet: b, registered: b, streams: 1}, stepListen},
		"kubelet not there":                {link{own: a, found: a}, stepNothing},
		"kubelet there":                    {link{own: a, found: a, kubelet: b}, stepRegister},
		"all is well":                      {link{own: a, found: a, kubelet: b, registered: b, streams: 1, registeredAt: now.Add(-time.Hour)}, stepNothing},
		"kubelet restarted":                {link{own: a, found: a, kubelet: b, registered: socket{inode: 2, sec: 1}, streams: 1}, stepRegister},
		"stream ended":                     {link{own: a, found: a, kubelet: b, registered: b, ended: true, registeredAt: now}, stepRegister},
		"stream ended, another stands":     {link{own: a, found: a, kubelet: b, registered: b, ended: true, streams: 1}, stepNothing},
		"just registered":                  {link{own: a, found: a, kubelet: b, registered: b, registeredAt: now}, stepNothing},
		"registered and never listened to": {link{own: a, found: a, kubelet: b, registered: b, registeredAt: now.Add(-connectWait)}, stepRegister},
		"too soon after the last try":      {link{own: a, found: a, kubelet: b, notBefore: now.Add(1)}, stepNothing},
	} {
		t.Run(name, func(t *testing.T) {
			if got := next(tc.l, now); got != tc.want {
				t.Errorf("next step %d, want %d", got, tc.want)
			}
		})
	}
}

func TestPauseAfter(t *testing.T) {
	for n := range 100 {
		for _, j := range []float64{0, 0.5, 0.999} {
			if d := pauseAfter(n, j); d < againFirst/2 || d > againLast {
				t.Errorf("pause after try %d with jitter %v is %s", n, j, d)
			}
		}
	}
	if pauseAfter(0, 0) >= pauseAfter(3, 0) || pauseAfter(3, 0) == pauseAfter(3, 0.9) {
		t.Error("pauses neither grow nor differ")
	}
}

// TestKubelet: each way in which the kubelet can lose sight of the plugin.
func TestKubelet(t *testing.T) {
	const all = "gpu: GPU-0@0 GPU-1@1"
	begin := func(t *testing.T) (string, *kubelet, *Agent) {
		dir := t.TempDir()
		a := start(t, newGPUs(2), dir, device.ByEnv)
		k := startKubelet(t, dir)
		k.wait()
		k.hears(all)
		return dir, k, a
	}
	t.Run("it registers under upstream's names", func(t *testing.T) {
		dir := t.TempDir()
		k := startKubelet(t, dir)
		start(t, newGPUs(2), dir, device.ByEnv)
		want := &v1beta1.RegisterRequest{Version: "v1beta1", Endpoint: "nvidia-gpu.sock", ResourceName: "nvidia.com/gpu", Options: &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}}
		if diff := cmp.Diff(want, k.wait(), protocmp.Transform()); diff != "" {
			t.Errorf("registration (-want +got):\n%s", diff)
		}
	})
	t.Run("the stream is cut, the socket stays", func(t *testing.T) {
		_, k, _ := begin(t)
		k.cutStreams()
		k.wait()
		k.hears(all)
	})
	t.Run("the kubelet restarts", func(t *testing.T) {
		dir, k, _ := begin(t)
		k.stop()
		k = startKubelet(t, dir)
		at := time.Now()
		k.wait()
		if took := time.Since(at) * speed; took > 2*time.Second {
			t.Errorf("registered %s after the kubelet's socket appeared, want at most 2 s", took)
		}
		k.hears(all)
	})
	t.Run("the plugin's own socket is deleted", func(t *testing.T) {
		dir, k, _ := begin(t)
		if err := os.Remove(filepath.Join(dir, "nvidia-gpu.sock")); err != nil {
			t.Fatal(err)
		}
		k.wait()
		k.hears(all)
	})
	t.Run("the kubelet takes the registration and does not listen", func(t *testing.T) {
		dir := t.TempDir()
		k := startKubelet(t, dir)
		k.deaf = true
		a := start(t, newGPUs(2), dir, device.ByEnv)
		for range 3 {
			k.wait()
		}
		eventually(t, "not alive", func() bool { return a.Health.alive() != nil })
		if a.Health.ready() == nil {
			t.Error("ready without a stream")
		}
	})
	t.Run("ready with a stream, and alive", func(t *testing.T) {
		_, _, a := begin(t)
		eventually(t, "ready", func() bool { return a.Health.ready() == nil })
		if err := a.Health.alive(); err != nil {
			t.Error(err)
		}
	})
}

// TestFitness: what the kubelet hears of GPUs that are not fit.
func TestFitness(t *testing.T) {
	t.Run("an error, and recovery by evidence", func(t *testing.T) {
		dir, g := t.TempDir(), newGPUs(2)
		k := startKubelet(t, dir)
		start(t, g, dir, device.ByEnv)
		k.hears("gpu: GPU-0@0 GPU-1@1")
		g.xids <- facts.XID{UUID: "GPU-1", Code: 31, GPUInstance: facts.WholeGPU} // an application's
		g.xids <- facts.XID{UUID: "GPU-0", Code: 48, GPUInstance: facts.WholeGPU}
		k.hears("gpu: !GPU-0@0 GPU-1@1")
		g.change(func() { g.probes["GPU-0"] = facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryNone} })
		k.hears("gpu: GPU-0@0 GPU-1@1")
	})
	t.Run("a GPU falls off the bus: capacity stays, allocatable goes down", func(t *testing.T) {
		dir, g := t.TempDir(), newGPUs(2)
		k := startKubelet(t, dir)
		start(t, g, dir, device.ByEnv)
		k.hears("gpu: GPU-0@0 GPU-1@1")
		g.change(func() {
			g.probes["GPU-1"] = facts.Probe{State: facts.DeviceLost, Fault: "lost", Action: facts.RecoveryUnknown}
		})
		k.hears("gpu: GPU-0@0 !GPU-1@1")
	})
	t.Run("a GPU that needs a reset is not offered as fit after a restart", func(t *testing.T) {
		dir, g := t.TempDir(), newGPUs(2)
		g.probes["GPU-1"] = facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryReset}
		k := startKubelet(t, dir)
		start(t, g, dir, device.ByEnv)
		k.wait()
		if first := <-k.lists; first != "gpu: GPU-0@0 !GPU-1@1" {
			t.Errorf("the first list is %q", first)
		}
	})
	t.Run("a GPU that no CDI spec lists", func(t *testing.T) {
		dir := t.TempDir()
		writeCDI(t, dir, "nvidia.com/gpu", "GPU-1", "all")
		writeCDI(t, dir, "management.nvidia.com/gpu", "GPU-0")
		k := startKubelet(t, dir)
		start(t, newGPUs(2), dir, device.ByCDI)
		k.hears("gpu: !GPU-0@0 GPU-1@1")
		writeCDI(t, dir, "nvidia.com/gpu", "GPU-0", "GPU-1")
		k.hears("gpu: GPU-0@0 GPU-1@1")
	})
	t.Run("the driver comes late and goes away", func(t *testing.T) {
		dir, g := t.TempDir(), newGPUs(2)
		g.err = errors.New("the driver is not loaded")
		k := startKubelet(t, dir)
		a := start(t, g, dir, device.ByEnv)
		eventually(t, "waiting", func() bool { return a.Health.ready() != nil })
		g.change(func() { g.err = nil })
		k.hears("gpu: GPU-0@0 GPU-1@1")
		g.change(func() { g.err = errors.New("the driver is not loaded") })
		k.hears("gpu: !GPU-0@0 !GPU-1@1")
		g.change(func() { g.err = nil })
		k.hears("gpu: GPU-0@0 GPU-1@1")
	})
	t.Run("a resource that ceases ends with an empty list", func(t *testing.T) {
		dir, g := t.TempDir(), newGPUs(1)
		k := startKubelet(t, dir)
		start(t, g, dir, device.ByEnv)
		k.hears("gpu: GPU-0@0")
		g.change(func() {
			d := g.inv.Devices[0]
			d.MIGEnabled, d.MIG = true, []facts.MIGDevice{{UUID: "MIG-0", Profile: "1g.10gb", GPUSlices: 1, ComputeSlices: 1}}
			g.inv.Devices = []facts.Device{d}
		})
		k.hears("gpu:")
		eventually(t, "offered as a partition", func() bool {
			return socketAt(filepath.Join(dir, "nvidia-mig-1g.10gb.sock")) != socket{}
		})
	})
}

// TestAnswers: exactly what was asked for, and nothing else.
func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	writeCDI(t, dir, "nvidia.com/gpu", "GPU-0", "GPU-1", "GPU-2", "GPU-3")
	k := startKubelet(t, dir)
	start(t, newGPUs(4), dir, device.ByCDIAnnotation, device.ByCDI)
	c, closeConn := k.dial(k.wait().Endpoint)
	defer closeConn()
	request := func(ids ...string) *v1beta1.ContainerAllocateRequest {
		return &v1beta1.ContainerAllocateRequest{DevicesIds: ids}
	}
	got, err := c.Allocate(t.Context(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{request("GPU-2"), request(), request("GPU-1", "GPU-0")}})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{
		{Annotations: map[string]string{"cdi.k8s.io/nvidia-device-plugin_request-1": "nvidia.com/gpu=GPU-2"}, CdiDevices: []*v1beta1.CDIDevice{{Name: "nvidia.com/gpu=GPU-2"}}},
		{},
		{
			Annotations: map[string]string{"cdi.k8s.io/nvidia-device-plugin_request-3": "nvidia.com/gpu=GPU-1,nvidia.com/gpu=GPU-0"},
			CdiDevices:  []*v1beta1.CDIDevice{{Name: "nvidia.com/gpu=GPU-1"}, {Name: "nvidia.com/gpu=GPU-0"}},
		},
	}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if _, err := c.Allocate(t.Context(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{request("GPU-9")}}); err == nil {
		t.Error("a device that is not there was allocated")
	}
	pref, err := c.GetPreferredAllocation(t.Context(), &v1beta1.PreferredAllocationRequest{ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: []string{"GPU-3", "GPU-0", "GPU-2"}, AllocationSize: 2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GPU-2", "GPU-3"}, pref.ContainerResponses[0].DeviceIDs); diff != "" {
		t.Errorf("preference (-want +got):\n%s", diff)
	}
}

// TestProbes: the kubelet's HTTP probes.
func TestProbes(t *testing.T) {
	now := time.Unix(1e9, 0)
	h := NewHealth(func() time.Time { return now })
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	expect := func(when string, live, ready int) {
		t.Helper()
		if l, r := get("/healthz"), get("/readyz"); l != live || r != ready {
			t.Errorf("%s: healthz %d readyz %d, want %d %d", when, l, r, live, ready)
		}
	}
	expect("while the driver is waited for", 200, 503)
	h.waiting("")
	expect("with nothing on offer", 200, 503)
	h.linked("nvidia.com/gpu", true, true, now)
	expect("with a stream", 200, 200)
	h.linked("nvidia.com/gpu", false, true, now)
	expect("without one", 200, 503)
	now = now.Add(unheard)
	expect("for a minute", 200, 503)
	now = now.Add(time.Second)
	expect("for longer", 503, 503)
	h.linked("nvidia.com/gpu", false, false, now)
	expect("while there is no kubelet", 200, 503)
	h.forget("nvidia.com/gpu")
	expect("after the resource is gone", 200, 503)
}

// eventually waits for something that happens on its own.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never %s", what)
		}
	}
}
