package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// identity names one process beyond doubt: pids are used again, but not with the
// same start time in the same boot.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// grace is how long a process gets after TERM before KILL.
const grace = 15 * time.Second

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
	id, err := identify(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%s ended at once: %w\n%s", p.Name, err, p.LogTail())
	}
	b, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encoding the pid file of %s: %w", p.Name, err)
	}
	if err := os.WriteFile(p.pidFile(), b, 0o644); err != nil {
		return fmt.Errorf("writing the pid file of %s: %w", p.Name, err)
	}
	return nil
}

// PID is the running process's id, or 0 when it does not run.
func (p Process) PID() int {
	b, err := os.ReadFile(p.pidFile())
	if err != nil {
		return 0
	}
	var want identity
	if json.Unmarshal(b, &want) != nil {
		return 0
	}
	if got, err := identify(want.PID); err != nil || got != want {
		return 0
	}
	return want.PID
}

// Stop ends the process (TERM, then KILL) and removes its pid file. Stopping
// what does not run is no error.
func (p Process) Stop(ctx context.Context) error {
	if pid := p.PID(); pid != 0 {
		if err := End(ctx, pid); err != nil {
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

// End tells one process to end, and kills it when it does not within the grace.
func End(ctx context.Context, pid int) error {
	before, err := identify(pid)
	if err != nil {
		return nil // It has ended.
	}
	gone := func() bool {
		now, err := identify(pid)
		return err != nil || now != before
	}
	for _, s := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, grace}} {
		if err := syscall.Kill(pid, s.signal); errors.Is(err, syscall.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("sending %s to process %d: %w", s.signal, pid, err)
		}
		deadline := time.NewTimer(s.wait)
		defer deadline.Stop()
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for expired := false; !expired; {
			if gone() {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for process %d to end: %w", pid, ctx.Err())
			case <-deadline.C:
				expired = true
			case <-tick.C:
			}
		}
	}
	return fmt.Errorf("process %d is still there %s after KILL", pid, grace)
}

// identify reads who a pid is now; a process that is gone or a zombie is an error.
func identify(pid int) (identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, fmt.Errorf("reading the boot id: %w", err)
	}
	state, start, err := parseStat(string(stat))
	if err != nil {
		return identity{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	if state == "Z" || state == "X" {
		return identity{}, fmt.Errorf("process %d has ended", pid)
	}
	return identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// parseStat takes the state and the start time (clock ticks since boot) from
// /proc/PID/stat, whose second field may contain anything in parentheses.
func parseStat(stat string) (state string, start uint64, err error) {
	_, rest, ok := cutLast(stat, ")")
	f := strings.Fields(rest)
	const startField = 19 // Field 22 of the file; the state is field 3, here 0.
	if !ok || len(f) <= startField {
		return "", 0, fmt.Errorf("%q is no /proc/PID/stat line", stat)
	}
	start, err = strconv.ParseUint(f[startField], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("parsing the start time: %w", err)
	}
	return f[0], start, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
