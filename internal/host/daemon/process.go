package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gpu-operator/internal/facts"
)

// Process is the process that serves a runtime's socket.
type Process struct {
	// PID as this process's own /proc numbers it.
	PID int
	// StartedAt is the start in clock ticks since boot (field 22 of /proc/PID/stat):
	// it changes with every restart and with nothing else.
	StartedAt int64
	// Executable is the path of the binary as the host sees it; where one binary is
	// many programs (k3s), the name that it was called by.
	Executable string
	// Config is the configuration file that the command line names; empty when it names none.
	Config string
}

// FindProcess finds the process behind a socket by asking the kernel who listens,
// and reads about it below proc. It needs to see the host's process ids.
func FindProcess(ctx context.Context, socket, proc string) (Process, error) {
	pid, err := peer(ctx, socket)
	if err != nil {
		return Process{}, err
	}
	p := Process{PID: pid}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, fmt.Errorf("reading about the runtime's process %d: %w", pid, err)
	}
	if p.StartedAt, err = facts.ParseStartTicks(stat); err != nil {
		return p, fmt.Errorf("reading about the runtime's process %d: %w", pid, err)
	}
	if p.Executable, err = os.Readlink(filepath.Join(dir, "exe")); err != nil {
		return p, fmt.Errorf("reading about the runtime's process %d: %w", pid, err)
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, fmt.Errorf("reading about the runtime's process %d: %w", pid, err)
	}
	args := facts.ParseCmdline(cmdline)
	p.Config = args.Flag("config", "c")
	if called := filepath.Join(filepath.Dir(p.Executable), filepath.Base(args[0])); called != p.Executable {
		if _, err := os.Lstat(filepath.Join(dir, "root", called)); err == nil {
			p.Executable = called
		}
	}
	return p, nil
}

// peer returns the process id of the process that listens on a socket.
func peer(ctx context.Context, socket string) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, fmt.Errorf("connecting to runtime socket %q: %w", socket, err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, fmt.Errorf("asking who listens on %q: %w", socket, credErr)
	}
	if cred.Pid == 0 {
		return 0, fmt.Errorf("asking who listens on %q: the process is in another pid namespace; this needs hostPID", socket)
	}
	return int(cred.Pid), nil
}
