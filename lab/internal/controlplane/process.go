package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gpu-operator/lab/internal/process"
)

// Enter makes a command that will run inside the lab's network namespace.
type Enter func(ctx context.Context, name string, args ...string) *exec.Cmd

// Process is a long-running program of the lab.
type Process struct {
	// Name is the pid file's and the log's name.
	Name string
	// Argv is the program's absolute path and its arguments.
	Argv []string
	// RunDir holds pid files, LogDir logs.
	RunDir, LogDir string
}

// poll is the interval of waits for processes and endpoints.
const poll = 50 * time.Millisecond

func (p Process) pidFile() string { return filepath.Join(p.RunDir, p.Name+".pid") }

// LogFile is where the process's output goes.
func (p Process) LogFile() string { return filepath.Join(p.LogDir, p.Name+".log") }

// Start runs the process in a session of its own, so that it outlives us, and
// writes its pid file. A process that runs already is left alone.
func (p Process) Start(ctx context.Context, enter Enter) error {
	if p.PID() != 0 {
		return nil
	}
	for _, dir := range []string{p.RunDir, p.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("starting %s: %w", p.Name, err)
		}
	}
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	defer log.Close()
	// Not bound to ctx: the command that starts it ends, the process stays.
	cmd := enter(context.WithoutCancel(ctx), p.Argv[0], p.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	// Reaps it if it ends while we live; its absence is what others look at.
	go func() { _ = cmd.Wait() }()
	if err := process.Record(p.pidFile(), cmd.Process.Pid); err != nil {
		return fmt.Errorf("starting %s: %w\n%s", p.Name, err, p.LogTail())
	}
	return nil
}

// PID is the running process's id, or 0 when it does not run.
func (p Process) PID() int { return process.Live(p.pidFile()) }

// Stop ends the process (TERM, then KILL) and removes its pid file. Stopping
// what does not run is no error.
func (p Process) Stop(ctx context.Context) error {
	if pid := p.PID(); pid != 0 {
		if err := process.End(ctx, pid); err != nil {
			return fmt.Errorf("stopping %s: %w", p.Name, err)
		}
	}
	if err := os.Remove(p.pidFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the pid file of %s: %w", p.Name, err)
	}
	return nil
}

// LogTail is the end of the process's log, for error messages.
func (p Process) LogTail() string {
	f, err := os.Open(p.LogFile())
	if err != nil {
		return ""
	}
	defer f.Close()
	const last = 3000
	if fi, err := f.Stat(); err == nil && fi.Size() > last {
		if _, err := f.Seek(-last, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("(end of %s)\n%s", p.LogFile(), strings.TrimSpace(string(b)))
}
