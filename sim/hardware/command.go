package hardware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sort"
	"strconv"
	"strings"
)

// ExitError is the exit status of a program that ran in our place.
type ExitError int

// Error says the status.
func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Command is one call of gpusim.
type Command struct {
	Name           string // the name it was called by
	Args           []string
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// realModprobe serves every module that is not the GPU driver's.
const realModprobe = "/usr/sbin/modprobe"

const usageText = `usage: gpusim [--root DIR] boot
       gpusim [--root DIR] modprobe [-r] nvidia [--driver-root DIR]
       gpusim [--root DIR] rmmod nvidia
       gpusim [--root DIR] set INDEX KEY=VALUE...
       gpusim [--root DIR] show [INDEX]`

// host is the node that the command works on.
func (c *Command) host() Host {
	h := Host{Root: "/", Real: true}
	if len(c.Args) >= 2 && c.Args[0] == "--root" {
		h = Host{Root: c.Args[1]}
		c.Args = c.Args[2:]
	}
	return h
}

// Run does what the command asks for.
func (c *Command) Run(ctx context.Context) error {
	h := c.host()
	verb := c.Name
	if verb != "modprobe" && verb != "nvidia-driver" {
		if len(c.Args) == 0 {
			return errors.New(usageText)
		}
		verb, c.Args = c.Args[0], c.Args[1:]
	}
	switch verb {
	case "boot":
		return h.Boot()
	case "modprobe":
		return c.modprobe(ctx, h)
	case "rmmod":
		return h.Unload(h.Holders)
	case "set":
		return c.set(h)
	case "show":
		return c.show(h)
	case "nvidia-driver":
		return c.driver(ctx)
	}
	return fmt.Errorf("unknown command %q\n%s", verb, usageText)
}

// modprobe loads or (-r) unloads the GPU driver's modules; all others are left to
// the real program.
func (c *Command) modprobe(ctx context.Context, h Host) error {
	root, remove, ours, others := "", false, false, false
	for i := 0; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case a == "-r" || a == "--remove":
			remove = true
		case (a == "--driver-root" || a == "-d") && i+1 < len(c.Args):
			i++
			root = c.Args[i]
		case strings.HasPrefix(a, "-"):
		case a == "nvidia" || strings.HasPrefix(a, "nvidia-") || strings.HasPrefix(a, "nvidia_"):
			ours = true
		default:
			others = true
		}
	}
	if others || !ours {
		cmd := exec.CommandContext(ctx, realModprobe, c.Args...)
		cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return ExitError(exit.ExitCode())
		}
		return err
	}
	if remove {
		return h.Unload(h.Holders)
	}
	if root == "" {
		root = "/run/nvidia/driver"
		if _, err := h.Version(root); err != nil {
			root = "/"
		}
	}
	return h.Load(root)
}

// set changes one GPU.
func (c *Command) set(h Host) error {
	if len(c.Args) < 2 {
		return errors.New(usageText)
	}
	index, err := strconv.Atoi(c.Args[0])
	if err != nil {
		return fmt.Errorf("%q is not the index of a GPU", c.Args[0])
	}
	return h.Set(index, c.Args[1:])
}

// show prints the state.
func (c *Command) show(h Host) error {
	r, err := h.Record()
	if err != nil {
		return err
	}
	for i, gpu := range r.GPUs {
		if len(c.Args) > 0 && c.Args[0] != strconv.Itoa(i) {
			continue
		}
		keys := make([]string, 0, len(gpu))
		for k := range gpu {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			fmt.Fprintf(c.Stdout, "gpu.%d.%s=%s\n", i, k, gpu[k])
		}
	}
	return nil
}

// driver plays the driver container: its host is mounted at /host.
func (c *Command) driver(ctx context.Context) error {
	if len(c.Args) == 0 || c.Args[0] != "init" {
		return fmt.Errorf("usage: nvidia-driver init")
	}
	onHost := func(ctx context.Context, args ...string) error {
		out, err := exec.CommandContext(ctx, "chroot", append([]string{"/host", "/usr/lib/gpusim/gpusim"}, args...)...).CombinedOutput()
		switch {
		case err != nil && strings.Contains(string(out), ErrInUse.Error()):
			return fmt.Errorf("%s: %w", strings.TrimSpace(string(out)), ErrInUse)
		case err != nil:
			return fmt.Errorf("running the kernel module's loader on the host: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	const root = "/run/nvidia/driver"
	return Container{
		Payload: "/driver", Root: root, Validations: "/run/nvidia/validations",
		LoadModule:   func(ctx context.Context) error { return onHost(ctx, "modprobe", "nvidia", "--driver-root", root) },
		UnloadModule: func(ctx context.Context) error { return onHost(ctx, "rmmod", "nvidia") },
		Out:          c.Stdout,
	}.Init(ctx)
}
