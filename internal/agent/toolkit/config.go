package toolkit

import (
	"fmt"
	"path"
	"time"

	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/toolkit"
)

// Config says where things are and what is wanted.
type Config struct {
	// HostRoot is where the host's / is mounted.
	HostRoot string
	// GPUSysfs and GPUProcfs are the roots of the GPU's part of sysfs and procfs.
	GPUSysfs, GPUProcfs string
	// PayloadDir holds the binaries to install.
	PayloadDir string
	// Listen is the address of /healthz and /readyz; empty serves none.
	Listen string
	// Options are what the policy asks for.
	Options toolkit.Options
	// SocketNamed says that the policy names the runtime's socket; else it is the one
	// that the kubelet uses.
	SocketNamed bool
	// UninstallDeadline is how long an uninstall waits for Pods before it says that
	// it waited too long; it goes on waiting.
	UninstallDeadline time.Duration
}

// defaultUninstallDeadline is a node drain's worth of time.
const defaultUninstallDeadline = 10 * time.Minute

// ConfigFromEnv reads the configuration that the operator put into the
// environment; get returns "" for a variable that is not set.
func ConfigFromEnv(get func(string) string) (Config, error) {
	c := Config{
		HostRoot: orDefault(get(names.EnvHostRoot), names.HostMount), PayloadDir: names.ToolkitPayloadDir,
		Listen: ":8080", UninstallDeadline: defaultUninstallDeadline,
	}
	c.GPUSysfs = orDefault(get(names.EnvGPUSysfs), path.Join(c.HostRoot, "sys"))
	c.GPUProcfs = orDefault(get(names.EnvGPUProcfs), path.Join(c.HostRoot, "proc"))
	options, err := toolkit.FromEnv(get)
	if err != nil {
		return c, fmt.Errorf("reading environment: %w", err)
	}
	c.Options, c.SocketNamed = options, get("RUNTIME_SOCKET") != "" || get("CONTAINERD_SOCKET") != ""
	return c, nil
}

// orDefault returns v, or def when v is empty.
func orDefault(v, def string) string {
	if v == "" {
		return def
	}
	return v
}
