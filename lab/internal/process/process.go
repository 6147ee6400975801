// Package process names processes beyond doubt, in files that outlive who started
// them, and ends them.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Identity names one process beyond doubt: pids are used again, but not with the
// same start time in the same boot.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// grace is how long a process gets after TERM before KILL.
const grace = 15 * time.Second

// poll is the interval of waits.
const poll = 50 * time.Millisecond

// Record writes who a running process is to a pid file.
func Record(path string, pid int) error {
	id, err := Identify(pid)
	if err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encoding the pid file %q: %w", path, err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("writing the pid file %q: %w", path, err)
	}
	return nil
}

// Live is the process of a pid file when it still runs, else 0.
func Live(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var want Identity
	if json.Unmarshal(b, &want) != nil {
		return 0
	}
	if got, err := Identify(want.PID); err != nil || got != want {
		return 0
	}
	return want.PID
}

// WaitGone waits until the process of a pid file has ended; false when it has not
// within the time.
func WaitGone(ctx context.Context, path string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for Live(path) != 0 {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// End tells one process to end, and kills it when it does not within the grace.
func End(ctx context.Context, pid int) error {
	before, err := Identify(pid)
	if err != nil {
		return nil // It has ended.
	}
	gone := func() bool {
		now, err := Identify(pid)
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

// Identify reads who a pid is now; a process that is gone or a zombie is an error.
func Identify(pid int) (Identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("reading the boot id: %w", err)
	}
	state, start, err := parseStat(string(stat))
	if err != nil {
		return Identity{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	if state == "Z" || state == "X" {
		return Identity{}, fmt.Errorf("process %d has ended", pid)
	}
	return Identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
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
