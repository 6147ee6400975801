// Package gate decides, per node, which steps may reach it. The chain is a table
// of steps, each with one pure function from facts to a verdict; nothing here
// reads a clock, an API or a host. A gate opens on evidence of this boot only,
// closes on positive evidence only, and stays as it is when nothing is known.
package gate

import (
	"fmt"
	"slices"
	"strings"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// Phase is where a ClusterPolicy is in its life.
type Phase int

// Phases: a policy that is being deleted closes gates from the last to the first.
const (
	// Normal: gates follow evidence.
	Normal Phase = iota
	// StopOperands: device plugin, discovery and exporter leave.
	StopOperands
	// UndoToolkit: the toolkit stays to undo its host changes.
	UndoToolkit
	// UndoDriver: everything leaves.
	UndoDriver
)

// Policy is what gates need of a ClusterPolicy.
type Policy struct {
	Phase Phase
	// Enabled says which steps are wanted, by step name.
	Enabled map[string]bool
	// DriverVersion is the wanted version of a managed driver; "" is any.
	DriverVersion string
	// Handler is the runtime handler for GPU Pods.
	Handler string
	// NeedsCDI says that the toolkit is the built-in one, whose CDI spec the device
	// plugin's answers refer to.
	NeedsCDI bool
}

// Facts are everything that is known of one node.
type Facts struct {
	Policy Policy
	// BootID, Labels, Handlers and Allocatable are of the Node object.
	BootID   string
	Labels   map[string]string
	Handlers []string
	// Allocatable is the sum of GPU resources that the kubelet offers.
	Allocatable int64
	// Status is the GPUNode's; nil when there is none.
	Status *v1alpha1.GPUNodeStatus
}

// Fresh reports whether the inspector has spoken in the node's present boot.
func (f Facts) Fresh() bool {
	return f.Status != nil && f.Status.Facts != nil && f.Status.Facts.BootID != "" &&
		f.Status.Facts.BootID == f.BootID && f.Status.PCIScanned
}

// GPUs is the number of GPUs that are not given to virtual machines.
func (f Facts) GPUs() int {
	if f.Status == nil {
		return 0
	}
	n := 0
	for _, g := range f.Status.PCIGPUs {
		if g.Driver != "vfio-pci" {
			n++
		}
	}
	return n
}

// changed reports whether the ledger says that host files are changed.
func (f Facts) changed() bool { return f.Status != nil && len(f.Status.HostChanges) > 0 }

// answer is what evidence says of a gate.
type answer int

const (
	no answer = iota
	yes
	unknown
)

// verdict is an answer with its reason; value is the label's when it is yes.
type verdict struct {
	answer          answer
	value           string
	reason, message string
}

// Step is one row of the chain.
type Step struct {
	Name, Label string
	opens       func(Facts) verdict
}

// Steps is the chain, in order.
func Steps() []Step {
	return []Step{
		{v1alpha1.StepDriver, names.GateDriver, driverOpens},
		{v1alpha1.StepToolkit, names.GateToolkit, toolkitOpens},
		{v1alpha1.StepDevicePlugin, names.GateDevicePlugin, runtimeOpens},
		{v1alpha1.StepFeatureDiscovery, names.GateFeatureDiscovery, runtimeOpens},
		{v1alpha1.StepExporter, names.GateExporter, runtimeOpens},
	}
}

// Decision is what one gate of one node shall be.
type Decision struct {
	v1alpha1.Gate
	// Label is the gate's label key.
	Label string
	// Value is what the label shall be; "" is absent. It is meaningful only when Write
	// is true: otherwise the label is left as it is.
	Value string
	Write bool
}

// Evaluate decides all gates of one node, in order.
func Evaluate(f Facts) []Decision {
	decisions := make([]Decision, 0, len(Steps()))
	for _, s := range Steps() {
		decisions = append(decisions, decide(s, f))
	}
	return decisions
}

// decide applies, in order: what people set, what the policy wants, what is
// known, what the evidence says.
func decide(s Step, f Facts) Decision {
	now := f.Labels[s.Label]
	mine := now == names.GateOpen || now == names.GatePreInstalled
	d := Decision{Label: s.Label, Write: mine}
	set := func(state, reason, format string, args ...any) Decision {
		d.Gate = v1alpha1.Gate{Step: s.Name, State: state, Reason: reason, Message: fmt.Sprintf(format, args...)}
		return d
	}
	switch {
	case f.Labels[names.GateOperands] == names.GateOff:
		return set(v1alpha1.GateOptedOut, v1alpha1.ReasonOptedOut, "node label %s=%s keeps all operands off this node; remove it to take part", names.GateOperands, names.GateOff)
	case strings.Contains(now, names.GatePausedPrefix):
		return set(v1alpha1.GatePaused, v1alpha1.ReasonPaused, "node label %s=%s: whoever paused the step resumes it", s.Label, now)
	case now != "" && !mine:
		return set(v1alpha1.GateOptedOut, v1alpha1.ReasonOptedOut, "node label %s=%s keeps the step off this node; remove it to take part", s.Label, now)
	case s.Name == v1alpha1.StepToolkit && f.Policy.Phase == UndoToolkit && (mine || f.changed()):
		// What is to be undone needs the toolkit on the node, also when its gate closed before.
		d.Value, d.Write = names.GateOpen, true
		return set(v1alpha1.GateOpen, v1alpha1.ReasonPolicyDeleted, "the toolkit undoes its host changes")
	case closedByPhase(s.Name, f.Policy.Phase):
		return set(v1alpha1.GateClosed, v1alpha1.ReasonPolicyDeleted, "the ClusterPolicy is being removed")
	case s.Name == v1alpha1.StepDriver && !f.Policy.Enabled[s.Name]:
		return set(v1alpha1.GateDisabled, v1alpha1.ReasonDriverNotManaged, "driver.enabled is false: the driver must be part of the OS image")
	case !f.Policy.Enabled[s.Name]:
		return set(v1alpha1.GateDisabled, v1alpha1.ReasonDisabled, "the policy does not want this step")
	}
	v := known(f)
	if v.answer == yes {
		v = s.opens(f)
	}
	switch {
	case f.Policy.Phase != Normal && mine, v.answer == unknown && mine:
		// A policy that is going opens nothing new and closes by phase only.
		d.Write = false
		return set(v1alpha1.GateHeld, v.reason, "%s", v.message)
	case v.answer != yes || f.Policy.Phase != Normal:
		return set(v1alpha1.GateClosed, v.reason, "%s", v.message)
	case v.value == names.GatePreInstalled:
		d.Value, d.Write = v.value, true
		return set(v1alpha1.GatePreInstalled, v.reason, "%s", v.message)
	}
	d.Value, d.Write = names.GateOpen, true
	return set(v1alpha1.GateOpen, v.reason, "%s", v.message)
}

// closedByPhase says which steps a policy that is being deleted has closed.
func closedByPhase(step string, p Phase) bool {
	switch step {
	case v1alpha1.StepDriver, v1alpha1.StepToolkit:
		return p == UndoDriver
	}
	return p != Normal
}

// known is yes when the node's facts are of this boot and it has a GPU of ours.
func known(f Facts) verdict {
	switch {
	case !f.Fresh():
		return verdict{unknown, "", v1alpha1.ReasonNodeNotInspected, "the node inspector has not spoken in this boot: see its pod on this node"}
	case f.Status.GPUCount == 0:
		return verdict{no, "", v1alpha1.ReasonNoGPU, "the PCI tree shows no NVIDIA display device"}
	case f.GPUs() == 0:
		return verdict{no, "", v1alpha1.ReasonGPUsPassedThrough, "every GPU is bound to vfio-pci and belongs to virtual machines"}
	}
	return verdict{answer: yes}
}

// driverOpens: a GPU is really there, and no driver of the OS image answers.
func driverOpens(f Facts) verdict {
	if d := f.Status.Driver; d != nil && d.Kind == "Host" && d.LoadedVersion != "" {
		return verdict{yes, names.GatePreInstalled, v1alpha1.ReasonHostDriver,
			fmt.Sprintf("driver %s of the OS image is loaded", d.LoadedVersion)}
	}
	return verdict{yes, names.GateOpen, v1alpha1.ReasonGPUFound, fmt.Sprintf("%d GPUs in the PCI tree", f.GPUs())}
}

// toolkitOpens: the wanted driver answers on this node in this boot.
func toolkitOpens(f Facts) verdict {
	d := f.Status.Driver
	switch {
	case d == nil:
		return verdict{no, "", v1alpha1.ReasonDriverNotReady, "nothing is known of a driver yet"}
	case !d.Ready && !f.Policy.Enabled[v1alpha1.StepDriver]:
		return verdict{no, "", v1alpha1.ReasonDriverNotReady, fmt.Sprintf(
			"%s: %s; driver.enabled is false: install the driver in the OS image, or set driver.enabled: true", d.Reason, d.Message)}
	case !d.Ready:
		return verdict{no, "", v1alpha1.ReasonDriverNotReady, fmt.Sprintf("%s: %s; see the pod of %s on this node", d.Reason, d.Message, names.DaemonSetDriver)}
	case d.Kind == "Managed" && !wanted(f.Policy.DriverVersion, d.LoadedVersion):
		return verdict{no, "", v1alpha1.ReasonDriverVersionNotWanted, fmt.Sprintf(
			"driver %s is loaded, the policy wants %s: it must be unloaded first (a reboot does)", d.LoadedVersion, f.Policy.DriverVersion)}
	}
	return verdict{yes, names.GateOpen, v1alpha1.ReasonProven, fmt.Sprintf("driver %s answers (root %s)", d.LoadedVersion, d.Root)}
}

// wanted compares a loaded driver version with the policy's: a full version must
// be equal, a branch (550) is any version of it, and a tag that is no version
// (a digest, "latest") cannot be compared.
func wanted(want, loaded string) bool {
	if want == "" || strings.Trim(want, "0123456789.") != "" {
		return true
	}
	return want == loaded || strings.HasPrefix(loaded, want+".")
}

// runtimeOpens: the runtime that serves the kubelet reports the handler, and the
// CDI spec is of the loaded driver.
func runtimeOpens(f Facts) verdict {
	if v := toolkitOpens(f); v.answer != yes {
		return v
	}
	if v := handlerKnown(f); v.answer != yes {
		return v
	}
	if !f.Policy.NeedsCDI {
		return verdict{yes, names.GateOpen, v1alpha1.ReasonProven, fmt.Sprintf("the runtime reports handler %q", f.Policy.Handler)}
	}
	loaded := f.Status.Driver.LoadedVersion
	for _, c := range f.Status.CDI {
		if c.Kind == names.CDIKind && c.DriverVersion == loaded && c.Missing == "" {
			return verdict{yes, names.GateOpen, v1alpha1.ReasonProven, fmt.Sprintf(
				"the runtime reports handler %q, CDI spec %s is of driver %s", f.Policy.Handler, c.Path, loaded)}
		}
	}
	return verdict{no, "", v1alpha1.ReasonCDISpecNotReady, fmt.Sprintf(
		"no CDI spec of kind %s is of driver %s; see the pod of %s on this node", names.CDIKind, loaded, names.DaemonSetToolkit)}
}

// handlerKnown weighs the toolkit's own proof and what the kubelet was told.
func handlerKnown(f Facts) verdict {
	reported := slices.Contains(f.Handlers, f.Policy.Handler)
	e := toolkitEvidence(f)
	switch {
	case !f.Policy.Enabled[v1alpha1.StepToolkit] || !f.Policy.NeedsCDI:
		// Somebody else's toolkit: only the runtime's word counts.
		if reported {
			return verdict{answer: yes}
		}
		return verdict{no, "", v1alpha1.ReasonHandlerMissing, fmt.Sprintf("the kubelet reports the runtime handlers %v, not %q", f.Handlers, f.Policy.Handler)}
	case e == nil:
		return verdict{no, "", v1alpha1.ReasonToolkitNotReady, fmt.Sprintf("the toolkit has not spoken in this boot; see the pod of %s on this node", names.DaemonSetToolkit)}
	case !e.Ready || e.Phase == "Undone":
		return verdict{no, "", v1alpha1.ReasonToolkitNotReady, fmt.Sprintf("%s: %s", e.Reason, e.Message)}
	case e.RuntimeStartedAt != f.Status.Facts.RuntimeStartedAt || e.DriverVersion != f.Status.Driver.LoadedVersion:
		if reported || len(f.Handlers) == 0 {
			return verdict{unknown, "", v1alpha1.ReasonProvenAnew, "the runtime was restarted or the driver changed: the toolkit proves its work again"}
		}
		return verdict{no, "", v1alpha1.ReasonHandlerMissing, fmt.Sprintf("the runtime was restarted and reports the handlers %v, not %q", f.Handlers, f.Policy.Handler)}
	case !slices.Contains(e.Handlers, f.Policy.Handler) && !reported:
		return verdict{no, "", v1alpha1.ReasonHandlerMissing, fmt.Sprintf("the runtime reports the handlers %v, not %q", e.Handlers, f.Policy.Handler)}
	}
	return verdict{answer: yes}
}

// toolkitEvidence is the toolkit's report of this boot, nil when there is none.
func toolkitEvidence(f Facts) *v1alpha1.StepEvidence {
	for i, e := range f.Status.Evidence {
		if e.Step == v1alpha1.StepToolkit && e.BootID == f.BootID {
			return &f.Status.Evidence[i]
		}
	}
	return nil
}
