package gate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

const (
	driver    = v1alpha1.StepDriver
	toolkit   = v1alpha1.StepToolkit
	plugin    = v1alpha1.StepDevicePlugin
	discovery = v1alpha1.StepFeatureDiscovery
	exporter  = v1alpha1.StepExporter
)

// proven is a GPU node of boot "b1" on which everything is proven: a driver of the
// OS image, a managed policy, handlers and CDI spec.
func proven() Facts {
	return Facts{
		Policy: Policy{Handler: "nvidia", NeedsCDI: true, Enabled: map[string]bool{
			driver: true, toolkit: true, plugin: true, discovery: true, exporter: true,
		}},
		BootID: "b1", Labels: map[string]string{}, Allocatable: 8,
		Status: &v1alpha1.GPUNodeStatus{
			Facts:      &v1alpha1.NodeFacts{BootID: "b1", RuntimeStartedAt: 10},
			PCIScanned: true, GPUCount: 1, PCIGPUs: []v1alpha1.PCIGPU{{Address: "0000:19:00.0", Driver: "nvidia"}},
			Driver: &v1alpha1.DriverState{Kind: "Host", Root: "/", LoadedVersion: "550.1", LibraryVersion: "550.1", Ready: true},
			Evidence: []v1alpha1.StepEvidence{{
				Step: toolkit, BootID: "b1", Ready: true, Phase: "Applied", DriverVersion: "550.1", RuntimeStartedAt: 10,
				Handlers: []string{"nvidia", "nvidia-management", "runc"},
			}},
			CDI: []v1alpha1.CDISpec{{Path: "/var/run/cdi/nvidia.com-gpu.yaml", Kind: names.CDIKind, DriverVersion: "550.1"}},
		},
	}
}

// open labels every gate as open, as on a node that is in use.
func open(f *Facts) {
	for _, s := range Steps() {
		f.Labels[s.Label] = names.GateOpen
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	const pre, op, cl, held, off, out, paused = v1alpha1.GatePreInstalled, v1alpha1.GateOpen, v1alpha1.GateClosed,
		v1alpha1.GateHeld, v1alpha1.GateDisabled, v1alpha1.GateOptedOut, v1alpha1.GatePaused
	for name, tc := range map[string]struct {
		change func(*Facts) // from the proven node
		states []string     // driver, toolkit, device plugin, discovery, exporter
		reason string       // of the device plugin's gate
	}{
		"everything proven":       {func(*Facts) {}, []string{pre, op, op, op, op}, v1alpha1.ReasonProven},
		"no GPUNode, nothing yet": {func(f *Facts) { f.Status = nil }, []string{cl, cl, cl, cl, cl}, v1alpha1.ReasonNodeNotInspected},
		"silent inspector holds what is open": {func(f *Facts) { f.Status = nil; open(f) }, []string{held, held, held, held, held},
			v1alpha1.ReasonNodeNotInspected},
		"facts of another boot hold": {func(f *Facts) { f.BootID = "b2"; open(f) }, []string{held, held, held, held, held},
			v1alpha1.ReasonNodeNotInspected},
		"facts of another boot open nothing": {func(f *Facts) { f.BootID = "b2" }, []string{cl, cl, cl, cl, cl}, v1alpha1.ReasonNodeNotInspected},
		"no GPU":                             {func(f *Facts) { f.Status.GPUCount, f.Status.PCIGPUs = 0, nil; open(f) }, []string{cl, cl, cl, cl, cl}, v1alpha1.ReasonNoGPU},
		"not scanned is not absent": {func(f *Facts) { f.Status.GPUCount, f.Status.PCIScanned = 0, false; open(f) },
			[]string{held, held, held, held, held}, v1alpha1.ReasonNodeNotInspected},
		"GPUs of virtual machines": {func(f *Facts) { f.Status.PCIGPUs[0].Driver = "vfio-pci" }, []string{cl, cl, cl, cl, cl},
			v1alpha1.ReasonGPUsPassedThrough},
		"bare node wants a driver": {func(f *Facts) { f.Status.Driver = &v1alpha1.DriverState{Kind: "None", Reason: "DriverNotLoaded"} },
			[]string{op, cl, cl, cl, cl}, v1alpha1.ReasonDriverNotReady},
		"driver not managed and not there": {func(f *Facts) {
			f.Policy.Enabled[driver] = false
			f.Status.Driver = &v1alpha1.DriverState{Kind: "None", Reason: "DriverNotLoaded"}
		}, []string{off, cl, cl, cl, cl}, v1alpha1.ReasonDriverNotReady},
		"driver not managed and there": {func(f *Facts) { f.Policy.Enabled[driver] = false }, []string{off, op, op, op, op}, v1alpha1.ReasonProven},
		"managed driver of another version": {func(f *Facts) {
			f.Policy.DriverVersion, f.Status.Driver.Kind = "570.2", "Managed"
		}, []string{op, cl, cl, cl, cl}, v1alpha1.ReasonDriverVersionNotWanted},
		"managed driver of the wanted branch": {func(f *Facts) {
			f.Policy.DriverVersion, f.Status.Driver.Kind = "550", "Managed"
		}, []string{op, op, op, op, op}, v1alpha1.ReasonProven},
		"a digest says no version": {func(f *Facts) {
			f.Policy.DriverVersion, f.Status.Driver.Kind = "sha256:abc", "Managed"
		}, []string{op, op, op, op, op}, v1alpha1.ReasonProven},
		"driver lost while in use closes": {func(f *Facts) { f.Status.Driver.Ready = false; open(f) }, []string{pre, cl, cl, cl, cl},
			v1alpha1.ReasonDriverNotReady},
		"toolkit silent in this boot": {func(f *Facts) { f.Status.Evidence[0].BootID = "b0"; open(f) }, []string{pre, op, cl, cl, cl},
			v1alpha1.ReasonToolkitNotReady},
		"toolkit says no": {func(f *Facts) { f.Status.Evidence[0].Ready = false; open(f) }, []string{pre, op, cl, cl, cl},
			v1alpha1.ReasonToolkitNotReady},
		"runtime restarted: proof is taken again": {func(f *Facts) { f.Status.Facts.RuntimeStartedAt = 11; open(f) },
			[]string{pre, op, held, held, held}, v1alpha1.ReasonProvenAnew},
		"runtime restarted, nothing open yet": {func(f *Facts) { f.Status.Facts.RuntimeStartedAt = 11 },
			[]string{pre, op, cl, cl, cl}, v1alpha1.ReasonProvenAnew},
		"runtime restarted without the handler": {func(f *Facts) {
			f.Status.Facts.RuntimeStartedAt, f.Handlers = 11, []string{"runc"}
			open(f)
		}, []string{pre, op, cl, cl, cl}, v1alpha1.ReasonHandlerMissing},
		"handler missing": {func(f *Facts) { f.Status.Evidence[0].Handlers = []string{"runc"} }, []string{pre, op, cl, cl, cl},
			v1alpha1.ReasonHandlerMissing},
		"CDI spec of another driver": {func(f *Facts) { f.Status.CDI[0].DriverVersion = "535.1" }, []string{pre, op, cl, cl, cl},
			v1alpha1.ReasonCDISpecNotReady},
		"CDI spec names a missing path": {func(f *Facts) { f.Status.CDI[0].Missing = "/usr/lib/x" }, []string{pre, op, cl, cl, cl},
			v1alpha1.ReasonCDISpecNotReady},
		"somebody else's toolkit: the kubelet's word": {func(f *Facts) {
			f.Policy.Enabled[toolkit], f.Policy.NeedsCDI, f.Status.Evidence, f.Handlers = false, false, nil, []string{"nvidia"}
		}, []string{pre, off, op, op, op}, v1alpha1.ReasonProven},
		"somebody else's toolkit is not there": {func(f *Facts) {
			f.Policy.Enabled[toolkit], f.Policy.NeedsCDI, f.Status.Evidence = false, false, nil
		}, []string{pre, off, cl, cl, cl}, v1alpha1.ReasonHandlerMissing},
		"a person's false stands": {func(f *Facts) { f.Labels[names.GateDevicePlugin] = "false" }, []string{pre, op, out, op, op},
			v1alpha1.ReasonOptedOut},
		"any other word stands as well": {func(f *Facts) { f.Labels[names.GateDevicePlugin] = "never" }, []string{pre, op, out, op, op},
			v1alpha1.ReasonOptedOut},
		"operands=false opts the node out": {func(f *Facts) { open(f); f.Labels[names.GateOperands] = "false" },
			[]string{out, out, out, out, out}, v1alpha1.ReasonOptedOut},
		"paused is left alone": {func(f *Facts) { f.Labels[names.GateDevicePlugin] = "paused-for-driver-upgrade" },
			[]string{pre, op, paused, op, op}, v1alpha1.ReasonPaused},
		"a suffixed pause is left alone": {func(f *Facts) { f.Labels[names.GateDevicePlugin] = "x_paused-for-driver-upgrade" },
			[]string{pre, op, paused, op, op}, v1alpha1.ReasonPaused},
		"a step that the policy does not want": {func(f *Facts) { f.Policy.Enabled[exporter] = false; open(f) }, []string{pre, op, op, op, off},
			v1alpha1.ReasonProven},
		"removal stops operands first": {func(f *Facts) { open(f); f.Policy.Phase = StopOperands }, []string{held, held, cl, cl, cl},
			v1alpha1.ReasonPolicyDeleted},
		"removal opens nothing new": {func(f *Facts) { f.Policy.Phase = StopOperands }, []string{cl, cl, cl, cl, cl},
			v1alpha1.ReasonPolicyDeleted},
		"the toolkit stays to undo": {func(f *Facts) { open(f); f.Policy.Phase = UndoToolkit }, []string{held, op, cl, cl, cl},
			v1alpha1.ReasonPolicyDeleted},
		"the toolkit comes back to undo": {func(f *Facts) {
			f.Policy.Phase, f.Status.HostChanges = UndoToolkit, []v1alpha1.HostChange{{Path: "/x"}}
		}, []string{cl, op, cl, cl, cl}, v1alpha1.ReasonPolicyDeleted},
		"at the end everything leaves": {func(f *Facts) { open(f); f.Policy.Phase = UndoDriver }, []string{cl, cl, cl, cl, cl},
			v1alpha1.ReasonPolicyDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := proven()
			tc.change(&f)
			var states []string
			var reason string
			for _, d := range Evaluate(f) {
				states = append(states, d.State)
				if d.Step == plugin {
					reason = d.Reason
				}
				if d.Message == "" {
					t.Errorf("gate %s is %s without a word", d.Step, d.State)
				}
			}
			if d := cmp.Diff(tc.states, states); d != "" {
				t.Errorf("states (-want +got):\n%s", d)
			}
			if reason != tc.reason {
				t.Errorf("the device plugin's reason is %q, want %q", reason, tc.reason)
			}
		})
	}
}

// TestRandomLives drives a node through random changes of facts and holds it to
// what must never be: a gate that opens without evidence of this boot, a teardown
// on nothing known, a write to somebody else's value.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := proven()
		for step := range 40 {
			mutate(r, &f)
			before := map[string]string{}
			maps.Copy(before, f.Labels)
			decisions := Evaluate(f)
			for _, d := range decisions {
				if msg := forbidden(f, d, before[d.Label]); msg != "" {
					t.Fatalf("seed %d step %d: gate %s: %s\n%+v", seed, step, d.Step, msg, f.Status)
				}
				if !d.Write {
					continue
				}
				delete(f.Labels, d.Label)
				if d.Value != "" {
					f.Labels[d.Label] = d.Value
				}
			}
			for _, d := range Evaluate(f) {
				if d.Write && d.Value != f.Labels[d.Label] {
					t.Fatalf("seed %d step %d: gate %s does not settle: %q then %q", seed, step, d.Step, f.Labels[d.Label], d.Value)
				}
			}
		}
	}
}

// mutate changes one fact.
func mutate(r *rand.Rand, f *Facts) {
	flip := r.IntN(2) == 0
	label := Steps()[r.IntN(len(Steps()))].Label
	switch r.IntN(10) {
	case 0:
		f.BootID = fmt.Sprint("b", r.IntN(2))
	case 1:
		f.Status.Facts.BootID = fmt.Sprint("b", r.IntN(2))
	case 2:
		f.Status.PCIScanned = flip
	case 3:
		f.Status.Driver.Ready = flip
	case 4:
		f.Status.Evidence[0].Ready = flip
		f.Status.Evidence[0].BootID = f.BootID
	case 5:
		f.Status.Facts.RuntimeStartedAt = int64(10 + r.IntN(2))
	case 6:
		f.Handlers = [][]string{nil, {"runc"}, {"runc", "nvidia"}}[r.IntN(3)]
	case 7:
		f.Labels[label] = []string{"false", "paused-for-mig-change", "mine"}[r.IntN(3)]
	case 8:
		delete(f.Labels, label)
	case 9:
		f.Status.CDI[0].DriverVersion = []string{"550.1", "535.1"}[r.IntN(2)]
	}
}

// forbidden says what a decision must not be.
func forbidden(f Facts, d Decision, label string) string {
	opens := d.Write && d.Value == names.GateOpen && label != names.GateOpen
	e := f.Status.Evidence[0]
	proof := e.Ready && e.BootID == f.BootID || slices.Contains(f.Handlers, "nvidia")
	switch {
	case opens && !f.Fresh():
		return "opens on facts of another boot"
	case opens && d.Step != driver && !f.Status.Driver.Ready:
		return "opens without a driver"
	case opens && d.Step != driver && d.Step != toolkit && !proof:
		return "opens without a handler"
	case !f.Fresh() && d.Write && d.Value == "" && label == names.GateOpen:
		return "is torn down on nothing known"
	case d.Write && label != "" && label != names.GateOpen && label != names.GatePreInstalled:
		return fmt.Sprintf("writes over somebody else's %q", label)
	}
	return ""
}
