// Package cdi decides about CDI specs: which files there are for a driver, what
// has to be recorded in them, and whether a spec that lies on a host still fits.
// Generating one needs the driver and is done elsewhere. Pure.
package cdi

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
)

// Annotations that a generated spec carries.
const (
	// AnnotationDriver is the driver version that the spec was made for.
	AnnotationDriver = "gpu-operator.nvidia.com/driver-version"
	// AnnotationBoot is the boot in which it was made.
	AnnotationBoot = "gpu-operator.nvidia.com/boot-id"
)

// Spec is one spec file that a node needs.
type Spec struct {
	// Path on the host.
	Path string
	// Kind is the CDI kind.
	Kind string
	// Management asks for every device node without asking NVML.
	Management bool
}

// Specs are the files of every node, workload devices first.
func Specs() []Spec {
	return []Spec{
		{Path: names.CDISpecFile, Kind: names.CDIKind},
		{Path: names.CDIManagementSpecFile, Kind: names.CDIManagement, Management: true},
	}
}

// Driver is the driver that specs are generated for.
type Driver struct {
	// Root is the driver root as the host sees it.
	Root string
	// Version of the loaded module.
	Version string
	// Devices are the names of the nvidia device nodes in /dev, sorted.
	Devices []string
	// BootID is this boot.
	BootID string
	// Hook is the path of nvidia-cdi-hook on the host.
	Hook string
}

// Key is equal for two drivers whose specs are equal: when it changes, specs are
// generated anew.
func (d Driver) Key() string {
	return strings.Join([]string{d.Root, d.Version, strings.Join(d.Devices, ","), d.BootID, d.Hook}, "|")
}

// DevRoot is the root whose /dev has the driver's device nodes: the driver's own
// when has says that its control node is there, else the host's.
func (d Driver) DevRoot(has func(string) bool) string {
	if d.Root != "/" && has(path.Join(d.Root, "dev", "nvidiactl")) {
		return d.Root
	}
	return "/"
}

// IsDevice says whether a name in /dev is a device node that specs may list.
func IsDevice(name string) bool { return strings.HasPrefix(name, "nvidia") }

// Check refuses a spec that would let containers fail at creation, or start without
// their GPU: it must have a device, each device (name to number of device nodes) a
// node, and every path that it names on the host must be there (exists).
func Check(spec Spec, devices map[string]int, hostPaths []string, exists func(string) bool) error {
	if len(devices) == 0 {
		return &fault.Fault{Reason: fault.ReasonCDIFailed, Where: spec.Path, Message: fmt.Sprintf("the spec of %s would have no device", spec.Kind)}
	}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		if devices[name] == 0 {
			return &fault.Fault{
				Reason: fault.ReasonCDIFailed, Where: spec.Path, Message: fmt.Sprintf("device %q of %s has no device node in /dev", name, spec.Kind),
				Remedy: "run nvidia-modprobe or nvidia-smi once on the host, which makes the device nodes",
			}
		}
	}
	missing := slices.DeleteFunc(slices.Clone(hostPaths), exists)
	if len(missing) > 0 {
		return &fault.Fault{
			Reason: fault.ReasonCDIFailed, Where: spec.Path,
			Message: fmt.Sprintf("the spec of %s names %d host paths that are not there: %s", spec.Kind, len(missing), strings.Join(missing, ", ")),
			Remedy:  "the driver's files are incomplete or were just replaced; repair the driver",
		}
	}
	return nil
}
