package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Need is one thing that the lab wants from the machine.
type Need struct {
	// What it is, and for what, as a person reads it.
	What string
	// Path is a program to find in PATH, or an absolute file to exist.
	Path string
	// Package is the Debian package that brings it; empty: it cannot be installed
	// by the lab, and Remedy says what to do.
	Package, Remedy string
}

// Needs is the table of what a machine must have before a lab starts.
func Needs() []Need {
	return []Need{
		{What: "the Go toolchain", Path: "go", Remedy: "install Go 1.26 or newer (https://go.dev/dl) and put it into PATH"},
		{What: "a C compiler (cgo: NVML bindings, runc)", Path: "gcc", Package: "gcc"},
		{What: "the C library's headers", Path: "/usr/include/stdio.h", Package: "libc6-dev"},
		{What: "pkg-config (runc)", Path: "pkg-config", Package: "pkg-config"},
		{What: "seccomp headers (runc)", Path: "/usr/include/seccomp.h", Package: "libseccomp-dev"},
		{What: "systemd as the nodes' PID 1", Path: "/lib/systemd/systemd", Package: "systemd"},
		{What: "systemd's init", Path: "/sbin/init", Package: "systemd-sysv"},
		{What: "systemd-nspawn (boots the nodes)", Path: "systemd-nspawn", Package: "systemd-container"},
		{What: "D-Bus (systemctl inside the nodes)", Path: "dbus-daemon", Package: "dbus"},
		{What: "ip (the lab's network)", Path: "ip", Package: "iproute2"},
		{What: "nsenter (enters nodes and network)", Path: "nsenter", Package: "util-linux"},
		{What: "kmod (the nodes' modprobe)", Path: "modprobe", Package: "kmod"},
		{What: "a static busybox (the workload image)", Path: "/usr/bin/busybox", Package: "busybox-static"},
	}
}

// Prepare checks the machine and installs missing Debian packages, saying so. It
// names everything that is missing at once.
func Prepare(ctx context.Context, p *Progress) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the lab runs on linux/amd64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root (it boots nodes, mounts their file systems and makes a network namespace): run it with sudo")
	}
	missing := missing(Needs(), found)
	var packages []string
	var errs []error
	for _, n := range missing {
		if n.Package == "" {
			errs = append(errs, fmt.Errorf("%s is missing (%s): %s", n.What, n.Path, n.Remedy))
		} else {
			packages = append(packages, n.Package)
		}
	}
	if len(errs) > 0 || len(packages) == 0 {
		return errors.Join(errs...)
	}
	return install(ctx, p, packages)
}

// install brings Debian packages, without starting what they bring.
func install(ctx context.Context, p *Progress, packages []string) error {
	slices.Sort(packages)
	packages = slices.Compact(packages)
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine has no apt-get: install what these Debian packages bring: %s", strings.Join(packages, ", "))
	}
	what := "installing Debian packages " + strings.Join(packages, ", ")
	p.Step("%s (apt-get)", what)
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)} {
		out := &tail{}
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = out, out
		if err := p.During("apt-get "+args[0], nil, cmd.Run); err != nil {
			return fmt.Errorf("%s: %w\n%s", what, err, out)
		}
	}
	if still := missing(Needs(), found); len(still) > 0 {
		return fmt.Errorf("%s is still missing after apt-get installed %q: expected %s", still[0].What, still[0].Package, still[0].Path)
	}
	return nil
}

// missing returns the needs that has does not find.
func missing(needs []Need, has func(path string) bool) []Need {
	var out []Need
	for _, n := range needs {
		if !has(n.Path) {
			out = append(out, n)
		}
	}
	return out
}

// found looks for a program in PATH (also where root's programs are, which a
// person's PATH may lack) or for an absolute file.
func found(path string) bool {
	if filepath.IsAbs(path) {
		_, err := os.Stat(path)
		return err == nil
	}
	if _, err := exec.LookPath(path); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			return true
		}
	}
	return false
}

// GoVersion asks the toolchain for its version, as in "go1.26.8".
func GoVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("asking the Go toolchain for its version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// FindRepo returns the root of the source tree that holds start or one of the
// folders above it.
func FindRepo(start string) (string, error) {
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "lab", "components", Kube, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%q is not inside the project's source tree (no lab/components/%s above it): run gpulab there or set GPULAB_REPO", start, Kube)
		}
	}
}
