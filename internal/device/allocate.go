package device

import (
	"fmt"
	"slices"
	"strings"

	"gpu-operator/internal/names"
)

// Way is one way to tell the container runtime which devices a container gets.
type Way string

// Ways, with upstream's names.
const (
	// ByCDI names CDI devices in the answer's own field.
	ByCDI Way = "cdi-cri"
	// ByCDIAnnotation names CDI devices in an annotation, for runtimes without the field.
	ByCDIAnnotation Way = "cdi-annotations"
	// ByEnv sets NVIDIA_VISIBLE_DEVICES.
	ByEnv Way = "envvar"
	// ByMounts mounts a file a device, which an unprivileged image cannot fake.
	ByMounts Way = "volume-mounts"
)

// ParseWays reads a comma separated list of ways.
func ParseWays(v string) ([]Way, error) {
	var out []Way
	for w := range strings.SplitSeq(v, ",") {
		way := Way(strings.TrimSpace(w))
		if !slices.Contains([]Way{ByCDI, ByCDIAnnotation, ByEnv, ByMounts}, way) {
			return nil, fmt.Errorf("device list strategy %q is not known, want some of cdi-cri, cdi-annotations, envvar, volume-mounts", way)
		}
		if !slices.Contains(out, way) {
			out = append(out, way)
		}
	}
	return out, nil
}

// CDI says whether one of the ways is by CDI.
func CDI(ways []Way) bool {
	return slices.Contains(ways, ByCDI) || slices.Contains(ways, ByCDIAnnotation)
}

// Asks are what a container's request turns into.
type Asks struct {
	// Ways are how the runtime is told.
	Ways []Way
	// ByIndex names devices by index in the environment instead of by UUID.
	ByIndex bool
	// AnnotationPrefix begins the annotation's key (cdi.k8s.io/).
	AnnotationPrefix string
	// Request is a name of this request that no other has.
	Request string
}

// Mount is a file of the host in the container.
type Mount struct {
	Host, Container string
}

// Answer is what a container gets: the devices asked for, told in the ways asked
// for, and nothing else.
type Answer struct {
	Env         map[string]string
	Annotations map[string]string
	Mounts      []Mount
	CDIDevices  []string
}

// Allocate answers a request for units. The units' order is kept.
func Allocate(units []Unit, a Asks) Answer {
	var out Answer
	if len(units) == 0 {
		return out
	}
	var visible, cdi []string
	for _, u := range units {
		id := u.ID
		if a.ByIndex {
			id = u.Index
		}
		visible = append(visible, id)
		cdi = append(cdi, names.CDIKind+"="+u.ID)
	}
	for _, w := range a.Ways {
		switch w {
		case ByCDI:
			out.CDIDevices = cdi
		case ByCDIAnnotation:
			out.Annotations = map[string]string{a.AnnotationPrefix + "nvidia-device-plugin_" + a.Request: strings.Join(cdi, ",")}
		case ByEnv:
			out.Env = map[string]string{names.EnvVisibleDevices: strings.Join(visible, ",")}
		case ByMounts:
			out.Env = map[string]string{names.EnvVisibleDevices: names.VisibleDevicesMounts}
			for _, id := range visible {
				out.Mounts = append(out.Mounts, Mount{Host: names.DevNull, Container: names.VisibleDevicesMounts + "/" + id})
			}
		}
	}
	return out
}
