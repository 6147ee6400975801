package toolkit

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/cdi"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// Phases of the evidence.
const (
	phaseApplied = "Applied"
	phaseUndone  = "Undone"
)

// Limits that keep the agent from harming a node by insisting.
const (
	restartLimit  = 3
	restartPeriod = 10 * time.Minute
	driftLimit    = 3
	driftPeriod   = time.Hour
)

// SpecGenerator makes the content of a CDI spec file.
type SpecGenerator interface {
	// Generate returns the content of the file for a driver.
	Generate(s cdi.Spec, d cdi.Driver) ([]byte, error)
}

// Deps are what the agent works with.
type Deps struct {
	// Root is the host's root.
	Root *host.Root
	// Runtime is the running container runtime.
	Runtime Runtime
	// Specs generates CDI specs.
	Specs SpecGenerator
	// Driver says which driver answers on the node.
	Driver func() v1alpha1.DriverState
	// KubeletSocket is the CRI socket that the node's kubelet uses; empty when it is
	// not known.
	KubeletSocket func() string
	// Payload are the files to install, and Manifest their hashes.
	Payload  host.Payload
	Manifest map[string]plan.Source
	// Now is the clock.
	Now func() time.Time
	// Pause waits; it ends early with the context.
	Pause func(ctx context.Context, d time.Duration)
}

// Agent keeps one node as the policy wants it.
type Agent struct {
	cfg  Config
	deps Deps
	// restarts and drifts limit what the agent does about a node that will not stay.
	restarts, drifts window
	// refused is the configuration that the runtime did not come back with, the start
	// of the runtime that went back, and why. Another start is a reason to try again.
	refused      string
	refusedStart int64
	refusedWhy   error
	// evidence is what was written last.
	evidence v1alpha1.StepEvidence
	// watch is what the last pass looked at.
	watch  watched
	health Health
}

// watched is what makes another pass necessary when it changes.
type watched struct {
	dirs    []string
	options toolkit.Options
	configs string
	started int64
	driver  string
}

// New returns an agent.
func New(cfg Config, deps Deps) *Agent {
	return &Agent{
		cfg: cfg, deps: deps, watch: watched{options: cfg.Options},
		restarts: window{limit: restartLimit, per: restartPeriod},
		drifts:   window{limit: driftLimit, per: driftPeriod},
	}
}

// Health answers probes for this agent.
func (a *Agent) Health() *Health { return &a.health }

// evidencePath is where the evidence lies on the host.
func evidencePath() string { return path.Join(names.RunDir, Step+names.EvidenceSuffix) }

// bootID reads the boot that the host is in.
func (a *Agent) bootID() (string, error) {
	data, err := a.deps.Root.ReadFile(names.BootIDFile, 1<<10)
	if err != nil {
		return "", fmt.Errorf("reading the host's boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// recall reads the evidence that an earlier run of this agent left in this boot, so
// that counts go on; other evidence counts for nothing.
func (a *Agent) recall(boot string) {
	if a.evidence.BootID == boot {
		return
	}
	a.evidence = v1alpha1.StepEvidence{}
	data, err := a.deps.Root.ReadFile(evidencePath(), configLimit)
	if err != nil {
		return
	}
	if e, err := facts.ParseEvidence(data); err == nil && e.BootID == boot && e.Step == Step {
		a.evidence = e
	}
}

// conclude writes what a pass found as evidence, unless the same is there already.
// An error becomes a reason; it is returned again for the log.
func (a *Agent) conclude(e v1alpha1.StepEvidence, err error) error {
	e.Step = Step
	e.RuntimeRestarts = max(e.RuntimeRestarts, a.evidence.RuntimeRestarts)
	if err != nil {
		e.Ready, e.Reason, e.Message = false, fault.ReasonOf(err, fault.ReasonApplyFailed), err.Error()
	}
	a.health.SetReady(e.Ready)
	if e.BootID == "" {
		return err
	}
	if same(e, a.evidence) && a.deps.Root.Exists(evidencePath()) {
		return err
	}
	if werr := a.write(e); werr != nil {
		return fmt.Errorf("writing evidence: %w", werr)
	}
	return err
}

// write puts evidence on the host.
func (a *Agent) write(e v1alpha1.StepEvidence) error {
	e.Time = timeOf(a.deps.Now())
	data, err := facts.FormatEvidence(e)
	if err != nil {
		return err
	}
	if err := a.deps.Root.WriteVolatile(evidencePath(), data, 0o644); err != nil {
		return err
	}
	a.evidence = e
	return nil
}

// same says whether two pieces of evidence say the same, whenever they were taken.
func same(x, y v1alpha1.StepEvidence) bool {
	x.Time, y.Time = nil, nil
	fx, errX := facts.FormatEvidence(x)
	fy, errY := facts.FormatEvidence(y)
	return errX == nil && errY == nil && string(fx) == string(fy)
}
