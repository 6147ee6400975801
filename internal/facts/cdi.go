package facts

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"gpu-operator/internal/names"
)

// CDI is what counts of one CDI spec file.
type CDI struct {
	// Kind is the CDI kind (nvidia.com/gpu).
	Kind string
	// Devices is the number of devices.
	Devices int32
	// DriverVersion is the version in the names of the driver libraries that it
	// mounts; "" when it mounts none, "a,b" when they differ.
	DriverVersion string
	// HostPaths are the paths on the host that it needs, each once, in order of
	// appearance: device nodes, mounts, hook programs.
	HostPaths []string
	// Hash is the sha256 of the spec without what differs between equal nodes: how
	// many devices there are, their names, minor numbers, addresses and uuids.
	Hash string
}

// cdiEdits mirrors the parts of a CDI spec's containerEdits that count here.
type cdiEdits struct {
	Env         []string    `json:"env,omitempty"`
	DeviceNodes []cdiDevice `json:"deviceNodes,omitempty"`
	Mounts      []cdiMount  `json:"mounts,omitempty"`
	Hooks       []cdiHook   `json:"hooks,omitempty"`
}

type cdiDevice struct {
	Path     string `json:"path,omitempty"`
	HostPath string `json:"hostPath,omitempty"`
}

type cdiMount struct {
	HostPath      string   `json:"hostPath,omitempty"`
	ContainerPath string   `json:"containerPath,omitempty"`
	Options       []string `json:"options,omitempty"`
	Type          string   `json:"type,omitempty"`
}

type cdiHook struct {
	HookName string   `json:"hookName,omitempty"`
	Path     string   `json:"path,omitempty"`
	Args     []string `json:"args,omitempty"`
	Env      []string `json:"env,omitempty"`
}

type cdiSpec struct {
	Version string `json:"cdiVersion"`
	Kind    string `json:"kind"`
	Devices []struct {
		Name  string   `json:"name"`
		Edits cdiEdits `json:"containerEdits"`
	} `json:"devices"`
	Edits cdiEdits `json:"containerEdits"`
}

// IsNVIDIAKind says whether a CDI kind is NVIDIA's or of a vendor below it.
func IsNVIDIAKind(kind string) bool {
	vendor, _, _ := strings.Cut(kind, "/")
	return vendor == "nvidia.com" || strings.HasSuffix(vendor, ".nvidia.com")
}

// ParseCDI reads the content of a CDI spec file, YAML or JSON. It fails for what is
// no CDI spec; the kind is left to the caller.
func ParseCDI(data []byte) (CDI, error) {
	var s cdiSpec
	if err := yaml.Unmarshal(data, &s); err != nil {
		return CDI{}, fmt.Errorf("decoding CDI spec: %w", err)
	}
	if s.Kind == "" || s.Version == "" {
		return CDI{}, fmt.Errorf("CDI spec lacks kind or cdiVersion: kind %q, cdiVersion %q", s.Kind, s.Version)
	}
	out := CDI{Kind: s.Kind, Devices: int32(len(s.Devices))}
	var versions []string
	paths := newSet()
	for _, e := range s.all() {
		for _, d := range e.DeviceNodes {
			paths.add(cmp.Or(d.HostPath, d.Path))
		}
		for _, m := range e.Mounts {
			paths.add(m.HostPath)
			if v := LibraryVersion(path.Base(m.HostPath)); v != "" && isDriverLibrary(m.HostPath) && !slices.Contains(versions, v) {
				versions = append(versions, v)
			}
		}
		for _, h := range e.Hooks {
			paths.add(h.Path)
		}
	}
	slices.Sort(versions)
	out.DriverVersion = strings.Join(versions, ",")
	out.HostPaths = paths.list
	hash, err := s.hash()
	out.Hash = hash
	return out, err
}

// all returns the common edits and those of each device.
func (s cdiSpec) all() []cdiEdits {
	out := []cdiEdits{s.Edits}
	for _, d := range s.Devices {
		out = append(out, d.Edits)
	}
	return out
}

// isDriverLibrary says whether a library's version is the driver's: libraries of
// other projects may be mounted too.
func isDriverLibrary(p string) bool {
	name := path.Base(p)
	for _, prefix := range []string{"libcuda.so.", "libnvidia-", "libcudadebugger.so.", "libnvcuvid.so.", "libnvoptix.so."} {
		// Container libraries and EGL platform glue have version schemes of their own.
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "libnvidia-egl-") && !strings.HasPrefix(name, "libnvidia-container") {
			return true
		}
	}
	return false
}

// identities are uuids, PCI addresses and minor numbers of devices.
var identities = regexp.MustCompile(`((?:GPU|MIG)-)[0-9a-fA-F-]{36}` +
	`|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]` +
	`|(` + names.DevDir + `/nvidia|nvidia-cap|\bcard|\brenderD)\d+`)

// hash returns the sha256 of the spec's edits without identities, as a sorted set.
func (s cdiSpec) hash() (string, error) {
	lines := []string{"kind " + s.Kind}
	for _, e := range s.all() {
		for _, v := range e.Env {
			lines = append(lines, "env "+v)
		}
		for _, item := range asAny(e) {
			data, err := json.Marshal(item)
			if err != nil {
				return "", fmt.Errorf("encoding CDI edits: %w", err)
			}
			lines = append(lines, string(data))
		}
	}
	for i := range lines {
		lines[i] = identities.ReplaceAllString(lines[i], "${1}${2}#")
	}
	slices.Sort(lines)
	return HashLines(slices.Compact(lines)), nil
}

// asAny returns the edits one by one.
func asAny(e cdiEdits) []any {
	var out []any
	for _, d := range e.DeviceNodes {
		out = append(out, d)
	}
	for _, m := range e.Mounts {
		out = append(out, m)
	}
	for _, h := range e.Hooks {
		// The hooks that make links in /dev take one argument pair a device.
		h.Args = slices.Compact(slices.Sorted(slices.Values(h.Args)))
		out = append(out, h)
	}
	return out
}

// HashLines returns the sha256 of the lines, each ended by a newline, in hexadecimal.
func HashLines(lines []string) string {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// set is a list without repetition and without "".
type set struct {
	list []string
	seen map[string]bool
}

func newSet() *set { return &set{seen: map[string]bool{}} }

func (s *set) add(v string) {
	if v != "" && !s.seen[v] {
		s.seen[v] = true
		s.list = append(s.list, v)
	}
}
