package toolkit

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/go-logr/logr"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/cdi"
	"gpu-operator/internal/nodeconf/toolkit"
)

// specMode lets every process read the specs, as other CDI tools write them.
const specMode = 0o644

// specs writes the CDI specs when the driver or its devices are not those that they
// were written for, or when one is gone. It returns the driver's version.
func (a *Agent) specs(ctx context.Context, boot string) (string, error) {
	state := a.deps.Driver()
	if !state.Ready {
		return "", &fault.Fault{Reason: orDefault(state.Reason, fault.ReasonDriverNotLoaded), Message: state.Message, Remedy: "CDI specs are written as soon as the driver answers"}
	}
	d, err := a.driver(state, boot)
	if err != nil {
		return state.LoadedVersion, err
	}
	a.watch.driver = d.Key()
	for _, spec := range cdi.Specs() {
		if err := a.spec(ctx, spec, d); err != nil {
			return state.LoadedVersion, err
		}
	}
	return state.LoadedVersion, nil
}

// spec writes one spec file unless the same bytes are there.
func (a *Agent) spec(ctx context.Context, spec cdi.Spec, d cdi.Driver) error {
	data, err := a.deps.Specs.Generate(spec, d)
	if err != nil {
		return &fault.Fault{Reason: fault.ReasonCDIFailed, Where: spec.Path, Message: "the CDI spec could not be generated", Err: err, Remedy: "check the driver with nvidia-smi on the node"}
	}
	if old, err := a.deps.Root.ReadFile(spec.Path, configLimit); err == nil && bytes.Equal(old, data) {
		return nil
	}
	logr.FromContextOrDiscard(ctx).Info("Writing CDI spec", "path", spec.Path, "driver", d.Version)
	if err := a.deps.Root.WriteVolatile(spec.Path, data, specMode); err != nil {
		return fmt.Errorf("writing CDI spec: %w", err)
	}
	return nil
}

// driver describes the driver that specs are generated for.
func (a *Agent) driver(state v1alpha1.DriverState, boot string) (cdi.Driver, error) {
	d := cdi.Driver{Root: state.Root, Version: state.LoadedVersion, BootID: boot, Hook: path.Join(a.cfg.Options.Dir(), toolkit.BinaryCDIHook)}
	for _, dir := range []string{names.DevDir, names.DevCaps} {
		found, err := a.deps.Root.ReadDir(path.Join(d.DevRoot(a.deps.Root.Exists), dir))
		if err != nil {
			continue // a driver without capabilities has no such directory
		}
		for _, e := range found {
			if cdi.IsDevice(e.Name()) {
				d.Devices = append(d.Devices, path.Join(dir, e.Name()))
			}
		}
	}
	slices.Sort(d.Devices)
	if len(d.Devices) == 0 {
		return d, &fault.Fault{Reason: fault.ReasonDriverDeviceMissing, Where: names.DevDir, Message: "no nvidia device node is there"}
	}
	return d, nil
}

// dropSpecs removes our spec files.
func (a *Agent) dropSpecs() error {
	for _, spec := range cdi.Specs() {
		if err := a.deps.Root.RemoveVolatile(spec.Path); err != nil {
			return err
		}
	}
	return nil
}
