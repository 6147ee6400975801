package toolkit

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
	"gpu-operator/internal/host/daemon"
	"gpu-operator/internal/names"
)

// callTimeout bounds one question to the runtime or to systemd.
const callTimeout = 10 * time.Second

// Live is the running container runtime as it was just seen.
type Live struct {
	// Process that serves the CRI socket.
	Process daemon.Process
	// Status is its own word over CRI.
	Status daemon.Status
	// Unit that the process belongs to; UnitErr says why it is not known.
	Unit    daemon.Unit
	UnitErr error
}

// Runtime is the running container runtime of a node.
type Runtime interface {
	// Look asks the runtime what it is and knows.
	Look(ctx context.Context) (Live, error)
	// Dump lets the runtime's binary print how it reads a configuration file of the host.
	Dump(ctx context.Context, executable, config string) ([]byte, error)
	// Restart restarts the unit and returns when systemd says it is done.
	Restart(ctx context.Context, unit daemon.Unit) error
	// Running returns the running containers by id.
	Running(ctx context.Context) (map[string]string, error)
	// Sandboxes returns the sandboxes that use one of the handlers or a binary below dir.
	Sandboxes(ctx context.Context, handlers []string, dir string) ([]daemon.Sandbox, error)
}

// hostRuntime is the real one, seen through the host's root.
type hostRuntime struct {
	root   *host.Root
	socket string // on the host
}

// NewHostRuntime returns the container runtime that listens on a socket of the host.
func NewHostRuntime(root *host.Root, socket string) Runtime {
	return hostRuntime{root: root, socket: socket}
}

// path returns where a path of the host is reached from here.
func (h hostRuntime) path(p string) (string, error) {
	real, err := h.root.Resolve(p)
	return filepath.Join(h.root.Dir(), real), err
}

// client connects to the CRI socket.
func (h hostRuntime) client() (*daemon.Client, error) {
	socket, err := h.path(h.socket)
	if err != nil {
		return nil, err
	}
	return daemon.Dial(socket)
}

// Look implements Runtime.
func (h hostRuntime) Look(ctx context.Context) (Live, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	live, err := h.look(ctx)
	if err != nil {
		return live, &fault.Fault{Reason: fault.ReasonRuntimeNotAnswering, Where: h.socket, Message: "the container runtime does not answer", Err: err, Remedy: "look at the runtime's unit and its log on the node"}
	}
	live.Unit, live.UnitErr = h.unit(ctx, live.Process.PID)
	return live, nil
}

func (h hostRuntime) look(ctx context.Context) (Live, error) {
	socket, err := h.path(h.socket)
	if err != nil {
		return Live{}, err
	}
	var live Live
	if live.Process, err = daemon.FindProcess(ctx, socket, filepath.Join(h.root.Dir(), "proc")); err != nil {
		return live, err
	}
	client, err := daemon.Dial(socket)
	if err != nil {
		return live, err
	}
	defer client.Close()
	live.Status, err = client.Status(ctx)
	return live, err
}

// unit asks systemd which unit a process belongs to.
func (h hostRuntime) unit(ctx context.Context, pid int) (daemon.Unit, error) {
	bus, err := h.path(names.SystemBusSocket)
	if err != nil {
		return daemon.Unit{}, err
	}
	systemd, err := daemon.DialSystemd(ctx, bus)
	if err != nil {
		return daemon.Unit{}, err
	}
	defer systemd.Close()
	return systemd.UnitOf(ctx, pid)
}

// Dump implements Runtime.
func (h hostRuntime) Dump(ctx context.Context, executable, config string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return daemon.Dump(ctx, h.root.Dir(), executable, config)
}

// Restart implements Runtime.
func (h hostRuntime) Restart(ctx context.Context, unit daemon.Unit) error {
	if unit.Name == "" {
		return errors.New("the runtime belongs to no unit that systemd knows")
	}
	bus, err := h.path(names.SystemBusSocket)
	if err != nil {
		return err
	}
	systemd, err := daemon.DialSystemd(ctx, bus)
	if err != nil {
		return err
	}
	defer systemd.Close()
	return systemd.Restart(ctx, unit.Name)
}

// Running implements Runtime.
func (h hostRuntime) Running(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := h.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Running(ctx)
}

// Sandboxes implements Runtime.
func (h hostRuntime) Sandboxes(ctx context.Context, handlers []string, dir string) ([]daemon.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*callTimeout)
	defer cancel()
	client, err := h.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Sandboxes(ctx, handlers, dir)
}
