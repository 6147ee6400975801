package containerd

import (
	"fmt"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/plan"
)

// snap decides for MicroK8s, whose start script makes the root from a template beside
// it: it puts in the snap's directories and the names of snapshotter and runtime where
// ${...} stands, and leaves everything else as it is. Our tables go to the template's
// end; the root is output and is never written.
func (in files) snap(f Facts, w Want, d Decision) (Decision, error) {
	if len(f.Templates) == 0 || !f.Templates[0].Exists || !f.Root.Exists {
		return d, unsupported(f, "has not written its configuration yet", "start it once; nothing was written")
	}
	template := f.Templates[0]
	if w.Default != "" {
		return d, unsupported(f, "names the default runtime in its template", fmt.Sprintf("set default_runtime_name = %q in %s instead", w.Default, template.Path))
	}
	for _, h := range w.Handlers {
		if t, taken := in.definer(h.Name); taken {
			return d, &fault.Fault{
				Reason: fault.ReasonHandlerTaken, Where: in.where(t.path, h.Name),
				Message: fmt.Sprintf("%s's template defines the handler %q already, and a table cannot be written twice", f.Distribution, h.Name),
				Remedy:  "take that table out of " + template.Path + " and restart MicroK8s' containerd",
			}
		}
	}
	tables, err := in.tables(w, d.NativeCDI, f.KubeletCgroupDriver, false)
	if err != nil {
		return d, err
	}
	// The root, which is what the template became, tells whether it can be extended.
	if d.Rendered, err = (blockEditor{}).Apply(map[string]string{argTables: tables}, f.Root.Data, true); err != nil {
		return d, err
	}
	d.Handlers = w.Handlers
	d.Steps = append(d.Steps, plan.Step{
		Kind: plan.KindEdit, Path: template.Path, Why: "makes " + f.Distribution + " tell its containerd the handlers " + handlerNames(w),
		Edit: &plan.Edit{Name: EditTemplate, Args: map[string]string{argTables: tables}},
	})
	return d, nil
}
