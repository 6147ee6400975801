package toolkit

import (
	"fmt"
	"path"
	"strconv"

	"gpu-operator/internal/names"
)

// Options are what a policy can say about the toolkit on a node.
type Options struct {
	// InstallDir is the directory on the host below which "toolkit" is made.
	InstallDir string
	// RuntimeConfig is the container runtime's configuration file on the host.
	RuntimeConfig string
	// DropIn is the drop-in file on the host; empty: derived from what is there.
	DropIn string
	// Socket is the runtime's CRI socket on the host.
	Socket string
	// Handler is the name of the workload handler.
	Handler string
	// SetAsDefault makes the workload handler the runtime's default.
	SetAsDefault bool
}

// FromEnv reads options from environment variables of upstream's names; get
// returns "" for one that is not set. It fails for values that cannot be right.
func FromEnv(get func(string) string) (Options, error) {
	first := func(def string, keys ...string) string {
		for _, k := range keys {
			if v := get(k); v != "" {
				return v
			}
		}
		return def
	}
	o := Options{
		InstallDir:    first(names.ToolkitInstallDir, "TOOLKIT_INSTALL_DIR", "ROOT"),
		RuntimeConfig: first(names.ContainerdConfig, "RUNTIME_CONFIG", "CONTAINERD_CONFIG"),
		DropIn:        first("", "RUNTIME_DROP_IN_CONFIG_HOST_PATH", "RUNTIME_DROP_IN_CONFIG"),
		Socket:        first(names.ContainerdSocket, "RUNTIME_SOCKET", "CONTAINERD_SOCKET"),
		Handler:       first(names.RuntimeNVIDIA, "NVIDIA_RUNTIME_NAME", "CONTAINERD_RUNTIME_CLASS"),
	}
	if r := first("containerd", "RUNTIME"); r != "containerd" {
		return o, fmt.Errorf("reading environment: RUNTIME is %q, this release configures containerd only", r)
	}
	for _, key := range []string{"NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT"} {
		v := get(key)
		if v == "" {
			continue
		}
		b, err := strconv.ParseBool(v)
		if err != nil {
			return o, fmt.Errorf("reading environment: %s is %q, want true or false", key, v)
		}
		o.SetAsDefault = b
		break
	}
	return o, o.check()
}

// check refuses paths and names that cannot be right.
func (o Options) check() error {
	for name, p := range map[string]string{"install directory": o.InstallDir, "runtime configuration": o.RuntimeConfig, "drop-in": o.DropIn, "socket": o.Socket} {
		if p == "" && name == "drop-in" {
			continue
		}
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			return fmt.Errorf("%s %q is not an absolute path without dots", name, p)
		}
	}
	if o.DropIn != "" && path.Ext(o.DropIn) != ".toml" {
		return fmt.Errorf("drop-in %q does not end in .toml", o.DropIn)
	}
	if o.Handler == names.RuntimeManagement || o.Handler == "runc" {
		return fmt.Errorf("runtime name %q is taken", o.Handler)
	}
	return nil
}

// Dir is the directory of binaries on the host.
func (o Options) Dir() string { return path.Join(o.InstallDir, names.ToolkitSubdir) }

// Handlers returns the names of the handlers that the runtime must know.
func (o Options) Handlers() []string {
	return append(names.WorkloadHandlers(o.Handler), names.RuntimeManagement)
}
