package driver

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
)

// Step is the name of this agent's step in evidence.
const Step = "driver"

// Periods of the look: a module comes and goes without a file event.
const (
	readyPeriod   = 30 * time.Second
	waitingPeriod = 5 * time.Second
)

// Deps are what the agent works with.
type Deps struct {
	// Root is the host's root.
	Root *host.Root
	// Driver says which driver answers on the node.
	Driver func() v1alpha1.DriverState
	// Wanted is the driver version that the policy names; empty accepts any.
	Wanted string
	// Now is the clock.
	Now func() time.Time
	// Pause waits; it ends early with the context.
	Pause func(ctx context.Context, d time.Duration)
	// Ready is told whether the driver answers, for probes.
	Ready func(bool)
}

// Agent adopts the driver of one node.
type Agent struct {
	deps Deps
	last string
}

// New returns an agent.
func New(deps Deps) *Agent { return &Agent{deps: deps} }

// Run keeps evidence of the driver up to date until ctx ends. It returns nil then:
// a driver in use is not taken away because a pod stops.
func (a *Agent) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		ready, err := a.Pass(ctx)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Looking at the driver")
		}
		a.deps.Ready(ready)
		period := waitingPeriod
		if ready {
			period = readyPeriod
		}
		a.deps.Pause(ctx, period)
	}
	return nil
}

// Pass looks once and writes evidence when it says something new. It returns
// whether the driver is proven.
func (a *Agent) Pass(ctx context.Context) (bool, error) {
	boot, err := a.deps.Root.ReadFile(names.BootIDFile, 1<<10)
	if err != nil {
		return false, fmt.Errorf("reading the host's boot id: %w", err)
	}
	e := Evidence(a.deps.Driver(), a.deps.Wanted)
	e.BootID = strings.TrimSpace(string(boot))
	said, err := facts.FormatEvidence(e)
	if err != nil {
		return false, err
	}
	file := path.Join(names.RunDir, Step+names.EvidenceSuffix)
	if string(said) == a.last && a.deps.Root.Exists(file) {
		return e.Ready, nil
	}
	now := metav1.NewTime(a.deps.Now().UTC().Truncate(time.Second))
	e.Time = &now
	data, err := facts.FormatEvidence(e)
	if err != nil {
		return false, err
	}
	if err := a.deps.Root.WriteVolatile(file, data, 0o644); err != nil {
		return false, fmt.Errorf("writing evidence: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Driver looked at", "ready", e.Ready, "version", e.DriverVersion, "reason", e.Reason, "message", e.Message)
	a.last = string(said)
	return e.Ready, nil
}

// Evidence says what a driver's state means for the step. Pure.
func Evidence(d v1alpha1.DriverState, wanted string) v1alpha1.StepEvidence {
	e := v1alpha1.StepEvidence{Step: Step, Phase: "Applied", DriverVersion: d.LoadedVersion, Ready: d.Ready, Reason: d.Reason, Message: d.Message}
	switch {
	case !d.Ready:
		e.Message = strings.TrimSpace(e.Message + "; " + remedy(d))
		if e.Reason == "" {
			e.Reason = fault.ReasonDriverNotLoaded
		}
	case wanted != "" && d.LoadedVersion != wanted:
		e.Ready, e.Reason = false, fault.ReasonDriverVersionMismatch
		e.Message = fmt.Sprintf("driver %s answers (root %s), the policy wants %s; %s", d.LoadedVersion, d.Root, wanted,
			"install that version in the OS image, or set spec.driver.version to the one that is there")
	default:
		e.Reason, e.Message = "", fmt.Sprintf("adopted driver %s in %s", d.LoadedVersion, d.Root)
	}
	return e
}

// remedy says what to do about a driver that does not answer.
func remedy(d v1alpha1.DriverState) string {
	switch d.Reason {
	case fault.ReasonDriverLibraryMissing, fault.ReasonDriverVersionMismatch:
		return "install the user-space libraries of the loaded version, or reboot into the one that is installed"
	case fault.ReasonDriverDeviceMissing:
		return "run nvidia-modprobe or nvidia-smi once on the host, which makes the device nodes"
	}
	return "install NVIDIA's driver in the OS image and load module nvidia, or name a driver image in spec.driver (this image carries none)"
}
