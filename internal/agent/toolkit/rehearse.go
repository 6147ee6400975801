package toolkit

import (
	"context"
	"fmt"
	"path"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/containerd"
	"gpu-operator/internal/plan"
)

// rehearsalDir holds copies of planned files while the daemon's binary reads them.
const rehearsalDir = names.RunDir + "/rehearsal"

// rehearse lets the daemon's own binary read the planned configuration from copies,
// and returns the options that it would give our handlers. It fails, and nothing
// has been written yet, when the binary refuses the files or does not show the
// handlers.
func (a *Agent) rehearse(ctx context.Context, t transaction, f containerd.Facts) (map[string]map[string]any, error) {
	root, copies, err := a.copies(t, f)
	defer a.dropCopies(copies)
	if err != nil {
		return nil, err
	}
	dump, err := a.deps.Runtime.Dump(ctx, t.live.Process.Executable, root)
	if err == nil {
		err = containerd.Proves(dump, t.handlers)
	}
	if err != nil {
		return nil, &fault.Fault{
			Reason: fault.ReasonDryRunFailed, Where: t.options.RuntimeConfig, Message: "the runtime's own binary does not read the planned configuration as meant; nothing was written", Err: err,
			Remedy: "compare `gpu-node toolkit diff` with the runtime's documentation of its configuration version",
		}
	}
	return containerd.Options(dump, t.handlers)
}

// copies writes the planned files to the rehearsal directory and returns the root
// copy and all copies by planned path.
func (a *Agent) copies(t transaction, f containerd.Facts) (string, map[string]string, error) {
	root := containerd.File{Path: f.Root.Path, Data: f.Root.Data}
	copies := map[string]string{}
	if t.wanted.Decision.Rendered != nil {
		root.Data = t.wanted.Decision.Rendered
	}
	for i, c := range t.planned() {
		if t.wanted.Decision.Rendered != nil {
			break // a template is no configuration: what it makes of the root is above
		}
		if c.Path == f.Root.Path || c.Via == f.Root.Path {
			root.Data = c.To.Content
			continue
		}
		copies[c.Path] = path.Join(rehearsalDir, fmt.Sprintf("%02d.toml", i))
		if err := a.deps.Root.WriteVolatile(copies[c.Path], c.To.Content, 0o600); err != nil {
			return "", copies, fmt.Errorf("rehearsing: %w", err)
		}
	}
	data, err := containerd.Rehearse(root, copies)
	if err != nil {
		return "", copies, fmt.Errorf("rehearsing: %w", err)
	}
	file := path.Join(rehearsalDir, "config.toml")
	copies[""] = file
	if err := a.deps.Root.WriteVolatile(file, data, 0o600); err != nil {
		return "", copies, fmt.Errorf("rehearsing: %w", err)
	}
	return file, copies, nil
}

// planned are the steps of the decision as they will be on disk, changed or not.
func (t transaction) planned() plan.Changes {
	var out plan.Changes
	for _, c := range t.changes {
		for _, s := range t.wanted.Decision.Steps {
			if c.Path == s.Path || c.Via == s.Path {
				out = append(out, c)
			}
		}
	}
	return out
}

// dropCopies removes the copies; what cannot be removed lies on tmpfs and does no harm.
func (a *Agent) dropCopies(copies map[string]string) {
	for _, file := range copies {
		_ = a.deps.Root.RemoveVolatile(file)
	}
	_ = a.deps.Root.RemoveVolatile(rehearsalDir)
}
