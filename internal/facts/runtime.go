package facts

import (
	"fmt"
	"path"
	"runtime/debug"
	"strings"

	"github.com/BurntSushi/toml"
	"sigs.k8s.io/yaml"

	"gpu-operator/internal/names"
)

// Daemon names a kind of container runtime and how it is recognized.
type Daemon struct {
	// Name as the kubelet reports it (containerd, cri-o, docker).
	Name string
	// Program is the base name of the daemon's binary.
	Program string
	// Endpoint is a part of the CRI socket's path that tells this runtime.
	Endpoint string
	// Config is the configuration file when no flag names one.
	Config string
	// ConfigFlags and AddressFlags are the daemon's flags for its configuration and its socket.
	ConfigFlags, AddressFlags []string
	// Module is the Go module path whose version is the daemon's.
	Module string
	// Packages are the Debian packages that carry it.
	Packages []string
}

// Daemons is the table of container runtimes. The first row is the default.
func Daemons() []Daemon {
	return []Daemon{
		{
			Name: "containerd", Program: "containerd", Endpoint: "containerd", Config: names.ContainerdConfig,
			ConfigFlags: []string{"config", "c"}, AddressFlags: []string{"address", "a"},
			Module: "github.com/containerd/containerd", Packages: []string{"containerd", "containerd.io"},
		},
		{
			Name: "cri-o", Program: "crio", Endpoint: "crio", Config: names.CRIOConfig,
			ConfigFlags: []string{"config", "c"}, AddressFlags: []string{"listen"},
			Module: "github.com/cri-o/cri-o", Packages: []string{"cri-o"},
		},
		{
			Name: "docker", Program: "dockerd", Endpoint: "dockerd", Config: names.DockerConfig,
			ConfigFlags: []string{"config-file"},
			Module:      "github.com/docker/docker", Packages: []string{"docker-ce", "docker.io"},
		},
	}
}

// DaemonOf returns the runtime that a CRI endpoint belongs to.
func DaemonOf(endpoint string) (Daemon, error) {
	for _, d := range Daemons() {
		if strings.Contains(path.Base(endpoint), d.Endpoint) || strings.Contains(endpoint, "/"+d.Endpoint) {
			return d, nil
		}
	}
	return Daemon{}, fmt.Errorf("CRI endpoint %q belongs to no container runtime that is known here", endpoint)
}

// Embedder is a program that runs the kubelet inside itself.
type Embedder struct {
	// Program is its base name, Endpoint its CRI socket when no flag names another.
	Program, Endpoint string
}

// Kubelets are the programs that are, or hold, a kubelet.
func Kubelets() []Embedder {
	return []Embedder{
		{Program: "kubelet", Endpoint: names.ContainerdSocket},
		{Program: "k3s", Endpoint: names.K3sContainerdSocket},
		{Program: "k3s-server", Endpoint: names.K3sContainerdSocket},
		{Program: "k3s-agent", Endpoint: names.K3sContainerdSocket},
		{Program: "kubelite", Endpoint: names.MicroK8sContainerdSocket},
	}
}

// Kubelet is what a node's kubelet was told.
type Kubelet struct {
	// Found says that its process or its configuration was seen.
	Found bool
	// Endpoint is the path of the CRI socket.
	Endpoint string
	// RootDir is its state directory.
	RootDir string
}

// KubeletOf returns what a kubelet's flags and configuration file say; either may
// be empty, flags win.
func KubeletOf(c Cmdline, config []byte, def string) (Kubelet, error) {
	k := Kubelet{Found: true, Endpoint: def, RootDir: names.KubeletRoot}
	var file struct {
		Endpoint string `json:"containerRuntimeEndpoint"`
	}
	if err := yaml.Unmarshal(config, &file); err != nil {
		return k, fmt.Errorf("decoding kubelet configuration: %w", err)
	}
	for _, e := range []string{file.Endpoint, c.Flag("container-runtime-endpoint")} {
		if e != "" {
			k.Endpoint = e
		}
	}
	k.Endpoint = strings.TrimPrefix(k.Endpoint, "unix://")
	if dir := c.Flag("root-dir"); dir != "" {
		k.RootDir = path.Clean(dir)
	}
	return k, nil
}

// ContainerdAddress returns the socket that a containerd configuration names, in
// any version of its format; "" when it names none or cannot be read.
func ContainerdAddress(config []byte) string {
	var c struct {
		GRPC    struct{ Address string } `toml:"grpc"`
		Plugins map[string]any           `toml:"plugins"`
	}
	if _, err := toml.Decode(string(config), &c); err != nil {
		return ""
	}
	if c.GRPC.Address != "" {
		return c.GRPC.Address
	}
	server, _ := c.Plugins["io.containerd.server.v1.grpc"].(map[string]any)
	address, _ := server["address"].(string)
	return address
}

// BinaryVersion returns the version of a Go daemon from what its binary says about
// its build: the version linked in, the main module's, or that of the module among
// the dependencies; "" when it says nothing.
func (d Daemon) BinaryVersion(b *debug.BuildInfo) string {
	for _, s := range b.Settings {
		if s.Key != "-ldflags" {
			continue
		}
		for field := range strings.FieldsSeq(s.Value) {
			key, v, ok := strings.Cut(strings.Trim(field, `'"`), "=")
			if ok && d.isModule(strings.TrimSuffix(key, "/version.Version")) && strings.HasSuffix(key, "/version.Version") {
				return strings.TrimPrefix(v, "v")
			}
		}
	}
	for _, m := range append([]*debug.Module{&b.Main}, b.Deps...) {
		if d.isModule(m.Path) && strings.HasPrefix(m.Version, "v") {
			version, _, _ := strings.Cut(m.Version, "+")
			return strings.TrimPrefix(version, "v")
		}
	}
	return ""
}

// isModule says whether a module path is the daemon's, in any major version.
func (d Daemon) isModule(p string) bool {
	rest, ok := strings.CutPrefix(p, d.Module)
	return ok && (rest == "" || strings.HasPrefix(rest, "/v") && !strings.Contains(rest[1:], "/"))
}

// PackageVersion returns the upstream part of an installed package's version from
// the content of dpkg's status file; "" when none of the packages is installed.
func (d Daemon) PackageVersion(status []byte) string {
	for paragraph := range strings.SplitSeq(string(status), "\n\n") {
		if !d.isPackage(paragraph) || !strings.Contains(paragraph, "\nStatus: install ok installed") {
			continue
		}
		for line := range strings.Lines(paragraph) {
			if v, ok := strings.CutPrefix(line, "Version: "); ok {
				return upstreamVersion(strings.TrimSpace(v))
			}
		}
	}
	return ""
}

// isPackage says whether a paragraph of the status file is about one of the packages.
func (d Daemon) isPackage(paragraph string) bool {
	for _, p := range d.Packages {
		if strings.HasPrefix(strings.TrimPrefix(paragraph, "\n"), "Package: "+p+"\n") {
			return true
		}
	}
	return false
}

// upstreamVersion strips epoch and revision of a Debian version.
func upstreamVersion(v string) string {
	if _, rest, ok := strings.Cut(v, ":"); ok {
		v = rest
	}
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		v = v[:i]
	}
	return v
}
