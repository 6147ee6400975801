package discovery

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/gpu"
)

// script is driver, cluster and time in one: each pause of the agent calls the next
// step, and after the last one the agent is stopped.
type script struct {
	steps []func()
	stop  context.CancelFunc

	inv       facts.Inventory
	driverErr error
	live      *v1alpha1.GPUNode
	storeErr  error
	writes    []v1alpha1.Discovery
	pauses    []time.Duration
	now       time.Time
	bootID    string
}

func (s *script) Inventory(context.Context) (facts.Inventory, error) { return s.inv, s.driverErr }

func (s *script) Get(context.Context) (v1alpha1.GPUNode, error) {
	if s.live == nil {
		return v1alpha1.GPUNode{}, apierrors.NewNotFound(schema.GroupResource{Resource: "gpunodes"}, "n")
	}
	return *s.live, nil
}

func (s *script) ApplyStatus(_ context.Context, st v1alpha1.GPUNodeStatus) error {
	switch {
	case s.storeErr != nil:
		return s.storeErr
	case s.live == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "gpunodes"}, "n")
	}
	s.writes = append(s.writes, *st.Discovery)
	s.live.Status.Discovery = st.Discovery
	return nil
}

func (s *script) Now() time.Time { return s.now }

func (s *script) After(d time.Duration) <-chan time.Time {
	s.pauses = append(s.pauses, d)
	s.now = s.now.Add(d)
	c := make(chan time.Time, 1)
	if len(s.steps) == 0 {
		s.stop()
		return c
	}
	s.steps[0]()
	s.steps = s.steps[1:]
	c <- s.now
	return c
}

// machine is n T4s.
func machine(n int) facts.Inventory {
	inv := facts.Inventory{DriverVersion: "550.163.01", CUDAVersion: 12040}
	for i := range n {
		inv.Devices = append(inv.Devices, facts.Device{Index: i, UUID: "GPU-" + string(rune('a'+i)), Product: "Tesla T4", Memory: 16 << 30, ComputeMajor: 7, ComputeMinor: 5, State: facts.DevicePresent})
	}
	return inv
}

// run runs an agent through a script.
func run(t *testing.T, s *script) (*Agent, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.stop, s.now = stop, time.Unix(1700000000, 0)
	if s.bootID == "" {
		s.bootID = "boot-1"
	}
	a := &Agent{
		GPUs: s, Store: s, Clock: s, Health: NewHealth(s.Now, time.Minute), Settings: Settings{Period: time.Minute},
		Machine: func() string { return "X" }, BootID: func() (string, error) { return s.bootID, nil },
	}
	err := a.Run(ctx)
	return a, err
}

func TestRun(t *testing.T) {
	nothing := func() {}
	count := "nvidia.com/gpu.count"
	for name, tc := range map[string]struct {
		make func() *script
		// counts are the label nvidia.com/gpu.count of each write
		counts []string
	}{
		"nothing changes, one write": {func() *script {
			return &script{inv: machine(2), live: &v1alpha1.GPUNode{}, steps: []func(){nothing, nothing, nothing}}
		}, []string{"2"}},
		"the driver comes after three minutes": {func() *script {
			s := &script{driverErr: errors.New("not loaded"), live: &v1alpha1.GPUNode{}}
			for range 10 {
				s.steps = append(s.steps, nothing)
			}
			s.steps = append(s.steps, func() { s.driverErr, s.inv = nil, machine(2) })
			return s
		}, []string{"2"}},
		"the object comes late": {func() *script {
			s := &script{inv: machine(2)}
			s.steps = []func(){nothing, func() { s.live = &v1alpha1.GPUNode{} }}
			return s
		}, []string{"2"}},
		"the driver goes away: what was written stands": {func() *script {
			s := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			s.steps = []func(){func() { s.driverErr, s.inv = errors.New("gone"), facts.Inventory{} }, nothing, func() { s.driverErr = nil }, nothing}
			return s
		}, []string{"2"}},
		"a GPU more": {func() *script {
			s := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			s.steps = []func(){func() { s.inv = machine(3) }}
			return s
		}, []string{"2", "3"}},
		"a GPU that is lost stays in the labels": {func() *script {
			s := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			s.steps = []func(){func() { s.inv.Devices[1].State = facts.DeviceLost }}
			return s
		}, []string{"2"}},
		"after a restart: nothing to write": {func() *script {
			old := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			if _, err := run(t, old); err != nil {
				t.Fatal(err)
			}
			return &script{inv: machine(2), live: old.live}
		}, nil},
		"after a restart with a GPU that does not say who it is": {func() *script {
			old := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			if _, err := run(t, old); err != nil {
				t.Fatal(err)
			}
			s := &script{inv: machine(2), live: old.live}
			s.inv.Devices[1] = facts.Device{Index: 1, State: facts.DeviceSilent, Fault: "silent"}
			return s
		}, nil},
		"after a reboot": {func() *script {
			old := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			if _, err := run(t, old); err != nil {
				t.Fatal(err)
			}
			return &script{inv: machine(2), live: old.live, bootID: "boot-2"}
		}, []string{"2"}},
		"the object was made anew": {func() *script {
			s := &script{inv: machine(2), live: &v1alpha1.GPUNode{}}
			s.steps = []func(){func() { s.live = &v1alpha1.GPUNode{} }}
			for range reread / time.Minute {
				s.steps = append(s.steps, nothing)
			}
			return s
		}, []string{"2", "2"}},
		"a write fails once": {func() *script {
			s := &script{inv: machine(2), live: &v1alpha1.GPUNode{}, storeErr: errors.New("conflict")}
			s.steps = []func(){func() { s.storeErr = nil }}
			return s
		}, []string{"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.make()
			a, err := run(t, s)
			if err != nil {
				t.Fatal(err)
			}
			var counts []string
			for _, w := range s.writes {
				counts = append(counts, w.Labels[count])
				if w.BootID != s.bootID {
					t.Errorf("written for boot %q, want %q", w.BootID, s.bootID)
				}
			}
			if diff := cmp.Diff(tc.counts, counts); diff != "" {
				t.Errorf("writes (-want +got):\n%s\npauses %v", diff, s.pauses)
			}
			if ready := a.Health.ready() == nil; len(tc.counts) > 0 && !ready {
				t.Error("not ready after a write")
			}
		})
	}
}

// TestOtherDriver: only a new process helps, so this one ends.
func TestOtherDriver(t *testing.T) {
	if _, err := run(t, &script{driverErr: gpu.ErrOtherDriver, live: &v1alpha1.GPUNode{}}); !errors.Is(err, gpu.ErrOtherDriver) {
		t.Errorf("Run ended with %v", err)
	}
}

// TestTimestamp: it says when the labels were derived, and is no change by itself.
func TestTimestamp(t *testing.T) {
	s := &script{inv: machine(1), live: &v1alpha1.GPUNode{}, steps: []func(){func() {}}}
	if _, err := run(t, s); err != nil {
		t.Fatal(err)
	}
	if got := s.writes[0].Labels[timestamp]; got != "1700000000" {
		t.Errorf("timestamp %q", got)
	}
}
