package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/internal/facts"
)

// machine is n whole GPUs; half of them on each NUMA node.
func machine(n int) facts.Inventory {
	var inv facts.Inventory
	for i := range n {
		inv.Devices = append(inv.Devices, facts.Device{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-%d", i), BusID: fmt.Sprintf("0000:%02x:00.0", i), NUMA: 2 * i / n, State: facts.DevicePresent,
		})
	}
	return inv
}

// partitioned adds partitions of the profiles to a GPU.
func partitioned(inv facts.Inventory, gpu int, profiles ...string) facts.Inventory {
	d := &inv.Devices[gpu]
	d.MIGEnabled = true
	for i, p := range profiles {
		m := facts.MIGDevice{UUID: fmt.Sprintf("MIG-%d-%d", gpu, i), Profile: p, GPUInstance: i, GPUSlices: 1, ComputeSlices: 1}
		if strings.HasPrefix(p, "1c.") {
			m.GPUSlices = 2
		}
		d.MIG = append(d.MIG, m)
	}
	return inv
}

func TestResources(t *testing.T) {
	lost := machine(2)
	lost.Devices[1].State = facts.DeviceLost
	nameless := machine(2)
	nameless.Devices[1].UUID = ""
	for name, tc := range map[string]struct {
		inv      facts.Inventory
		strategy Strategy
		// want is "name: ids" a resource; err a part of the error
		want []string
		err  string
	}{
		"whole GPUs":                       {machine(2), MIGNone, []string{"nvidia.com/gpu: GPU-0 GPU-1"}, ""},
		"a lost GPU stays in the capacity": {lost, MIGNone, []string{"nvidia.com/gpu: GPU-0 GPU-1"}, ""},
		"a GPU that never said who it is":  {nameless, MIGNone, []string{"nvidia.com/gpu: GPU-0"}, ""},
		"no GPU":                           {facts.Inventory{}, MIGNone, nil, ""},
		"none ignores partitions":          {partitioned(machine(1), 0, "1g.5gb"), MIGNone, []string{"nvidia.com/gpu: GPU-0"}, ""},
		"mixed":                            {partitioned(machine(2), 1, "1g.5gb", "1g.10gb+me", "1c.2g.10gb"), MIGMixed, []string{"nvidia.com/gpu: GPU-0", "nvidia.com/mig-1g.10gb.me: MIG-1-1", "nvidia.com/mig-1g.5gb: MIG-1-0"}, ""},
		"single":                           {partitioned(partitioned(machine(2), 0, "1g.5gb"), 1, "1g.5gb"), MIGSingle, []string{"nvidia.com/gpu: MIG-0-0 MIG-1-0"}, ""},
		"single without any partitioning":  {machine(2), MIGSingle, []string{"nvidia.com/gpu: GPU-0 GPU-1"}, ""},
		"single with a whole GPU":          {partitioned(machine(2), 0, "1g.5gb"), MIGSingle, nil, "GPU 1 is not"},
		"single with an empty GPU":         {partitioned(machine(1), 0), MIGSingle, nil, "GPU 0 has none"},
		"single with two profiles":         {partitioned(machine(1), 0, "1g.5gb", "2g.10gb"), MIGSingle, nil, "1g.5gb and 2g.10gb"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resources(tc.inv, tc.strategy)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			var words []string
			for _, r := range got {
				w := r.Name + ":"
				for _, u := range r.Units {
					w += " " + u.ID
				}
				words = append(words, w)
			}
			if diff := cmp.Diff(tc.want, words); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllocate(t *testing.T) {
	r, err := Resources(machine(4), MIGNone)
	if err != nil {
		t.Fatal(err)
	}
	asks := Asks{AnnotationPrefix: "cdi.k8s.io/", Request: "r1"}
	for name, tc := range map[string]struct {
		ways    string
		byIndex bool
		ids     []string
		want    Answer
	}{
		"nothing asked, nothing given": {"cdi-cri,cdi-annotations,envvar,volume-mounts", false, nil, Answer{}},
		"by CDI":                       {"cdi-cri", false, []string{"GPU-2"}, Answer{CDIDevices: []string{"nvidia.com/gpu=GPU-2"}}},
		"by CDI and annotation": {"cdi-annotations,cdi-cri", false, []string{"GPU-3", "GPU-1"}, Answer{
			CDIDevices:  []string{"nvidia.com/gpu=GPU-3", "nvidia.com/gpu=GPU-1"},
			Annotations: map[string]string{"cdi.k8s.io/nvidia-device-plugin_r1": "nvidia.com/gpu=GPU-3,nvidia.com/gpu=GPU-1"},
		}},
		"by environment":           {"envvar", false, []string{"GPU-0", "GPU-1"}, Answer{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1"}}},
		"by environment and index": {"envvar", true, []string{"GPU-0", "GPU-1"}, Answer{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "0,1"}}},
		"by mounts": {"volume-mounts", false, []string{"GPU-0"}, Answer{
			Env:    map[string]string{"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"},
			Mounts: []Mount{{"/dev/null", "/var/run/nvidia-container-devices/GPU-0"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ways, err := ParseWays(tc.ways)
			if err != nil {
				t.Fatal(err)
			}
			units, err := r[0].Find(tc.ids)
			if err != nil {
				t.Fatal(err)
			}
			a := asks
			a.Ways, a.ByIndex = ways, tc.byIndex
			if diff := cmp.Diff(tc.want, Allocate(units, a)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := r[0].Find([]string{"GPU-9"}); err == nil || !strings.Contains(err.Error(), "GPU-9") {
		t.Errorf("an unknown device: %v", err)
	}
	if _, err := ParseWays("cdi-cri,magic"); err == nil {
		t.Error("an unknown way is accepted")
	}
}

func TestPrefer(t *testing.T) {
	pairs := machine(8) // NVLink bridges join 0-5, 1-4, 2-7, 3-6, across NUMA nodes
	for _, p := range [][2]int{{0, 5}, {1, 4}, {2, 7}, {3, 6}} {
		pairs.Devices[p[0]].Links = map[string]int{pairs.Devices[p[1]].BusID: 4}
		pairs.Devices[p[1]].Links = map[string]int{pairs.Devices[p[0]].BusID: 4}
	}
	switched := machine(8)
	for i := range switched.Devices {
		switched.Devices[i].Links = map[string]int{facts.LinkSwitch: 18}
	}
	for name, tc := range map[string]struct {
		inv facts.Inventory
		// free and must are indexes
		free, must []int
		size       int
		want       string
	}{
		"one of all: the first":                   {machine(8), []int{0, 1, 2, 3, 4, 5, 6, 7}, nil, 1, "0"},
		"one node before two":                     {machine(8), []int{3, 4, 5}, nil, 2, "4 5"},
		"one that leaves the pair":                {machine(8), []int{3, 4, 5}, nil, 1, "3"},
		"a link before a node":                    {pairs, []int{0, 1, 2, 3, 5}, nil, 2, "0 5"},
		"two linked pairs":                        {pairs, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil, 4, "0 1 4 5"},
		"what has to be in":                       {pairs, []int{0, 1, 2, 3, 4, 5}, []int{4}, 2, "1 4"},
		"one without link is taken before a pair": {pairs, []int{0, 5, 7}, nil, 1, "7"},
		"behind a switch the node decides":        {switched, []int{1, 2, 3, 4}, nil, 3, "1 2 3"},
		"all":                                     {machine(4), []int{0, 1, 2, 3}, nil, 4, "0 1 2 3"},
		"too many for a full search":              {machine(30), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, []int{20}, 8, "15 16 17 18 19 20 21 22"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Resources(tc.inv, MIGNone)
			if err != nil {
				t.Fatal(err)
			}
			pick := func(indexes []int) (out []Unit) {
				for _, i := range indexes {
					out = append(out, r[0].Units[i])
				}
				return out
			}
			units, err := Prefer(pick(tc.free), pick(tc.must), tc.size)
			if err != nil {
				t.Fatal(err)
			}
			taken := map[string]bool{}
			for _, u := range units {
				taken[u.Index] = true
			}
			var got []string
			for _, u := range r[0].Units {
				if taken[u.Index] {
					got = append(got, u.Index)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("picked %v, want %s", got, tc.want)
			}
		})
	}
	r, _ := Resources(machine(2), MIGNone) // whole GPUs cannot fail
	if _, err := Prefer(r[0].Units[:1], nil, 2); err == nil {
		t.Error("2 out of 1 were picked")
	}
	if _, err := Prefer(r[0].Units[:1], r[0].Units[1:], 1); err == nil {
		t.Error("a device that is not free was picked")
	}
}

// TestHealth: what happens to a GPU, one word an event, and whether it gets work then.
func TestHealth(t *testing.T) {
	table, err := NewTable("", "")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1e9, 0)
	for name, tc := range map[string]struct {
		// events: xid N, gi1:xid N, ok (driver cannot say more), none (it says that all
		// is well), action N, lost, silent, wait (a minute)
		events string
		// fit of the whole GPU, of partitions 1 and 2; class of the fault
		fit   [3]bool
		class Class
	}{
		"a new GPU":                          {"", [3]bool{true, true, true}, ""},
		"an application's error":             {"xid 31, xid 13, xid 94", [3]bool{true, true, true}, ""},
		"a transient error":                  {"xid 63, ok", [3]bool{false, false, false}, ClassTransient},
		"a code that nobody knows":           {"xid 999", [3]bool{false, false, false}, ClassTransient},
		"transient and quiet for a minute":   {"xid 63, wait, ok", [3]bool{true, true, true}, ""},
		"quiet, but not looked at":           {"xid 63, wait", [3]bool{false, false, false}, ClassTransient},
		"one more error within the minute":   {"xid 63, wait, xid 63, ok", [3]bool{false, false, false}, ClassTransient},
		"a reset is needed":                  {"xid 48, wait, wait, ok", [3]bool{false, false, false}, ClassReset},
		"the driver says that it was reset":  {"xid 48, none", [3]bool{true, true, true}, ""},
		"the driver asks for a reset":        {"action 1", [3]bool{false, false, false}, ClassReset},
		"and then no more":                   {"action 1, none", [3]bool{true, true, true}, ""},
		"the driver asks for a reboot":       {"action 2", [3]bool{false, false, false}, ClassReboot},
		"off the bus":                        {"xid 79, lost", [3]bool{false, false, false}, ClassLost},
		"back on the bus, the driver agrees": {"xid 79, lost, none", [3]bool{true, true, true}, ""},
		"back on the bus, an old driver":     {"xid 79, ok", [3]bool{false, false, false}, ClassLost},
		"back on the bus for a minute":       {"xid 79, wait, ok", [3]bool{true, true, true}, ""},
		"slow for once":                      {"silent, ok", [3]bool{true, true, true}, ""},
		"a hang does not cover a reset":      {"xid 48, silent, ok", [3]bool{false, false, false}, ClassReset},
		"only a reboot helps":                {"xid 110, none, wait, none", [3]bool{false, false, false}, ClassReboot},
		"a partition's error":                {"gi1:xid 63", [3]bool{true, false, true}, ClassTransient},
		"a partition's recovery":             {"gi1:xid 63, wait, ok", [3]bool{true, true, true}, ""},
		"the worst fault is named":           {"xid 63, xid 48, xid 110", [3]bool{false, false, false}, ClassReboot},
	} {
		t.Run(name, func(t *testing.T) {
			h, now := Health{}, start
			for e := range strings.SplitSeq(tc.events, ", ") {
				h, now = apply(t, h, e, table, now)
			}
			for i, instance := range []int{facts.WholeGPU, 1, 2} {
				fit, f := h.Fit(instance)
				if fit != tc.fit[i] {
					t.Errorf("instance %d fit %t, want %t (%+v)", instance, fit, tc.fit[i], f)
				}
				if !fit && f.Class != tc.class {
					t.Errorf("instance %d: class %s, want %s", instance, f.Class, tc.class)
				}
			}
		})
	}
}

// apply is one event of TestHealth.
func apply(t *testing.T, h Health, e string, table Table, now time.Time) (Health, time.Time) {
	t.Helper()
	var n int
	switch {
	case e == "":
	case e == "wait":
		return h, now.Add(quiet)
	case e == "ok":
		h = AfterProbe(h, facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryUnknown}, now)
	case e == "none":
		h = AfterProbe(h, facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryNone}, now)
	case e == "lost":
		h = AfterProbe(h, facts.Probe{State: facts.DeviceLost, Fault: "lost", Action: facts.RecoveryUnknown}, now)
	case e == "silent":
		h = AfterProbe(h, facts.Probe{State: facts.DeviceSilent, Fault: "silent", Action: facts.RecoveryUnknown}, now)
	case scan(e, "xid %d", &n):
		h = AfterXID(h, facts.XID{Code: n, GPUInstance: facts.WholeGPU}, table, now)
	case scan(e, "gi1:xid %d", &n):
		h = AfterXID(h, facts.XID{Code: n, GPUInstance: 1}, table, now)
	case scan(e, "action %d", &n):
		h = AfterProbe(h, facts.Probe{State: facts.DevicePresent, Action: facts.RecoveryAction(n)}, now)
	default:
		t.Fatalf("unknown event %q", e)
	}
	return h, now
}

func scan(s, format string, n *int) bool {
	got, err := fmt.Sscanf(s, format, n)
	return err == nil && got == 1
}

func TestTable(t *testing.T) {
	for name, tc := range map[string]struct {
		ignore, heed string
		// want is the class of codes
		want map[int]Class
		err  string
	}{
		"as it is":              {"", "", map[int]Class{31: ClassApplication, 48: ClassReset, 999: ClassTransient}, ""},
		"one ignored":           {"48, 63", "", map[int]Class{48: ClassApplication, 63: ClassApplication, 79: ClassLost}, ""},
		"one heeded":            {"", "31", map[int]Class{31: ClassTransient, 13: ClassApplication}, ""},
		"all ignored":           {"all", "", map[int]Class{48: ClassApplication, 999: ClassApplication}, ""},
		"all ignored but one":   {"xids", "48", map[int]Class{48: ClassReset, 79: ClassApplication}, ""},
		"heed wins over ignore": {"48", "48", map[int]Class{48: ClassReset}, ""},
		"not a number":          {"48;63", "", nil, `"48;63"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewTable(tc.ignore, tc.heed)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for code, class := range tc.want {
				if c := got.Class(code); c != class {
					t.Errorf("XID %d is %s, want %s", code, c, class)
				}
			}
		})
	}
}
