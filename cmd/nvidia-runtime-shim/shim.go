package main

import (
	"path"
	"slices"
	"strings"
)

// Names that the toolkit installs; kept here because the shim has no dependencies.
const (
	realName         = "nvidia-container-runtime.real"
	managementSuffix = ".management"
	configEnv        = "NVIDIA_CTK_CONFIG_FILE_PATH"
	selfLink         = "/proc/self/exe"
	deletedSuffix    = " (deleted)"
)

// call is what the shim becomes.
type call struct {
	path string
	args []string
	env  []string
}

// selfPath returns the path that the shim was called by: its argument when that is
// absolute, as container runtimes do, else what the kernel says. The argument
// decides which of the two handlers is meant.
func selfPath(arg0 string, readlink func(string) (string, error)) (string, error) {
	if path.IsAbs(arg0) {
		return arg0, nil
	}
	p, err := readlink(selfLink)
	return strings.TrimSuffix(p, deletedSuffix), err
}

// command returns NVIDIA's runtime beside the shim with the handler's configuration.
func command(self string, args, env []string) call {
	dir, name := path.Split(self)
	dir = path.Clean(dir)
	config := path.Join(dir, ".config", name, "config.toml")
	c := call{path: path.Join(dir, realName)}
	c.args = append([]string{c.path}, args[1:]...)
	searchPath := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range env {
		switch {
		case strings.HasPrefix(e, configEnv+"="):
		case strings.HasPrefix(e, "PATH="):
			if v := strings.TrimPrefix(e, "PATH="); v != "" {
				searchPath = v
			}
		default:
			c.env = append(c.env, e)
		}
	}
	c.env = append(c.env, "PATH="+dir+":"+searchPath, configEnv+"="+config)
	return c
}

// needsNVIDIA says why the call cannot be served by plain runc; "" when it can. Only
// `create` matters: containers that exist must always be startable, killable and
// deletable.
func needsNVIDIA(self string, args []string, read func(string) ([]byte, error)) string {
	if !slices.Contains(args[1:], "create") {
		return ""
	}
	if strings.HasSuffix(self, managementSuffix) {
		return "runs under the management handler"
	}
	spec, err := read(path.Join(bundle(args), "config.json"))
	if err != nil {
		return ""
	}
	if strings.Contains(string(spec), `"cdi.k8s.io/`) {
		return "asks for CDI devices by annotation"
	}
	return ""
}

// bundle returns the value of the bundle option of an OCI runtime's command line.
func bundle(args []string) string {
	for i, a := range args {
		for _, flag := range []string{"--bundle", "-bundle", "-b"} {
			if a == flag && i+1 < len(args) {
				return args[i+1]
			}
			if v, ok := strings.CutPrefix(a, flag+"="); ok {
				return v
			}
		}
	}
	return "."
}

// lowLevel returns where runc and crun may be, the PATH's directories first.
func lowLevel(searchPath string) []string {
	dirs := append(strings.Split(searchPath, ":"), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	var out []string
	for _, name := range []string{"runc", "crun"} {
		for _, dir := range dirs {
			if candidate := path.Join(dir, name); path.IsAbs(dir) && !slices.Contains(out, candidate) {
				out = append(out, candidate)
			}
		}
	}
	return out
}
