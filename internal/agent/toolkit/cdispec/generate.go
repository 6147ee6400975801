// Package cdispec generates CDI specs with NVIDIA's own library from the driver
// that is on the host, seen through the host's root, and writes paths as the host
// sees them. It loads the driver's libnvidia-ml.
package cdispec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	nvspec "github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/spec"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform"
	transformroot "github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform/root"
	"sigs.k8s.io/yaml"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpu-operator/internal/nodeconf/cdi"
)

// allDevices is the name of the device that stands for every GPU of a node.
const allDevices = "all"

// Generator makes the specs of one host.
type Generator struct {
	// HostRoot is where the host's / is mounted.
	HostRoot string
	// Dev is the agent's own /dev when that is not the host's; empty: nothing is
	// mirrored there.
	Dev string
	// Log receives what the library has to say.
	Log func(format string, args ...any)
	// Exists says whether a path is on the host, links resolved within its root.
	Exists func(path string) bool
}

// Generate returns the content of one spec file (YAML) for a driver. Every host
// path in it was seen on the host.
func (g Generator) Generate(s cdi.Spec, d cdi.Driver) ([]byte, error) {
	devRoot := d.DevRoot(g.Exists)
	if g.Dev != "" {
		if err := MirrorDevices(filepath.Join(g.HostRoot, devRoot, "dev"), g.Dev); err != nil {
			return nil, err
		}
	}
	lib, err := nvcdi.New(g.options(s, d, devRoot)...)
	if err != nil {
		return nil, fmt.Errorf("preparing CDI spec %q: %w", s.Path, err)
	}
	devices, err := lib.GetDeviceSpecsByID(allDevices)
	if err != nil {
		return nil, fmt.Errorf("generating devices of CDI spec %q: %w", s.Path, err)
	}
	common, err := lib.GetCommonEdits()
	if err != nil {
		return nil, fmt.Errorf("generating common part of CDI spec %q: %w", s.Path, err)
	}
	vendor, class, _ := strings.Cut(s.Kind, "/")
	spec, err := nvspec.New(
		nvspec.WithVendor(vendor), nvspec.WithClass(class),
		nvspec.WithDeviceSpecs(devices), nvspec.WithEdits(*common.ContainerEdits),
		nvspec.WithMergedDeviceOptions(transform.WithName(allDevices), transform.WithSkipIfExists(true)),
	)
	if err != nil {
		return nil, fmt.Errorf("assembling CDI spec %q: %w", s.Path, err)
	}
	raw := spec.Raw()
	if err := g.toHost(raw, d, devRoot); err != nil {
		return nil, fmt.Errorf("rewriting host paths of CDI spec %q: %w", s.Path, err)
	}
	return g.finish(s, d, raw)
}

// options are the library's options for a spec.
func (g Generator) options(s cdi.Spec, d cdi.Driver, devRoot string) []nvcdi.Option {
	var namers []nvcdi.DeviceNamer
	for _, strategy := range []string{nvcdi.DeviceNameStrategyIndex, nvcdi.DeviceNameStrategyUUID} {
		if namer, err := nvcdi.NewDeviceNamer(strategy); err == nil {
			namers = append(namers, namer)
		}
	}
	mode := nvcdi.ModeNvml
	if s.Management {
		mode = nvcdi.ModeManagement
	}
	return []nvcdi.Option{
		nvcdi.WithLogger(libraryLog{g.Log}),
		nvcdi.WithMode(mode),
		nvcdi.WithDriverRoot(filepath.Join(g.HostRoot, d.Root)),
		nvcdi.WithDevRoot(filepath.Join(g.HostRoot, devRoot)),
		nvcdi.WithNVIDIACDIHookPath(d.Hook),
		nvcdi.WithDeviceNamers(namers...),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	}
}

// toHost rewrites paths below the host's mount point to what the host sees.
func (g Generator) toHost(raw *specs.Spec, d cdi.Driver, devRoot string) error {
	if g.HostRoot == "/" {
		return nil
	}
	return transformroot.NewDriverTransformer(
		transformroot.WithDriverRoot(filepath.Join(g.HostRoot, d.Root)), transformroot.WithTargetDriverRoot(d.Root),
		transformroot.WithDevRoot(filepath.Join(g.HostRoot, devRoot)), transformroot.WithTargetDevRoot(devRoot),
	).Transform(raw)
}

// finish annotates, checks and renders a spec, in an order that does not change
// from run to run.
func (g Generator) finish(s cdi.Spec, d cdi.Driver, raw *specs.Spec) ([]byte, error) {
	if raw.Annotations == nil {
		raw.Annotations = map[string]string{}
	}
	raw.Annotations[cdi.AnnotationDriver] = d.Version
	raw.Annotations[cdi.AnnotationBoot] = d.BootID
	version, err := specs.MinimumRequiredVersion(raw)
	if err != nil {
		return nil, fmt.Errorf("finding the version of CDI spec %q: %w", s.Path, err)
	}
	raw.Version = version
	if err := cdi.Check(s, deviceNodes(raw), hostPaths(raw), g.Exists); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("encoding CDI spec %q: %w", s.Path, err)
	}
	return data, nil
}

// deviceNodes counts the device nodes of each device.
func deviceNodes(raw *specs.Spec) map[string]int {
	out := map[string]int{}
	for _, d := range raw.Devices {
		out[d.Name] = len(d.ContainerEdits.DeviceNodes)
	}
	return out
}

// hostPaths are the paths on the host that a spec needs at container creation.
func hostPaths(raw *specs.Spec) []string {
	var out []string
	add := func(e specs.ContainerEdits) {
		for _, n := range e.DeviceNodes {
			out = append(out, orPath(n.HostPath, n.Path))
		}
		for _, m := range e.Mounts {
			out = append(out, m.HostPath)
		}
		for _, h := range e.Hooks {
			out = append(out, h.Path)
		}
	}
	add(raw.ContainerEdits)
	for _, dev := range raw.Devices {
		add(dev.ContainerEdits)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// orPath returns p, or def when p is empty.
func orPath(p, def string) string {
	if p == "" {
		return def
	}
	return p
}

// libraryLog hands the library's words on; its debugging is dropped.
type libraryLog struct {
	log func(format string, args ...any)
}

func (l libraryLog) Debugf(string, ...any)          {}
func (l libraryLog) Tracef(string, ...any)          {}
func (l libraryLog) Infof(string, ...any)           {}
func (l libraryLog) Warningf(f string, args ...any) { l.log(f, args...) }
func (l libraryLog) Errorf(f string, args ...any)   { l.log(f, args...) }
