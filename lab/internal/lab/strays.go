package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpu-operator/lab/internal/netns"
	"gpu-operator/lab/internal/process"
)

// endStrays ends every process that is still in the lab's network: a command
// killed between a program's start and the writing of its pid file leaves one.
// Being in the lab's own network namespace is what makes a process the lab's.
func (l *Lab) endStrays(ctx context.Context) error {
	var want unix.Stat_t
	switch err := unix.Stat(netns.Path(), &want); {
	case errors.Is(err, unix.ENOENT):
		return nil // no namespace: nobody is in it
	case err != nil:
		return fmt.Errorf("looking at the network namespace %q: %w", netns.Path(), err)
	}
	mine := ancestors(os.Getpid())
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	var errs []error
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st) != nil || st.Ino != want.Ino || st.Dev != want.Dev {
			continue
		}
		if slices.Contains(mine, pid) {
			return errors.New("this command runs inside the lab's network (`gpulab run`): leave it first")
		}
		l.Step("ending process %d, which was left in the lab's network (%s)", pid, commandLine(pid))
		errs = append(errs, process.End(ctx, pid))
	}
	return errors.Join(errs...)
}

// ancestors lists a process and those that it came from.
func ancestors(pid int) []int {
	var out []int
	for pid > 1 {
		out = append(out, pid)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			break
		}
		pid = 0
		for line := range strings.Lines(string(status)) {
			if parent, ok := strings.CutPrefix(line, "PPid:"); ok {
				pid, err = strconv.Atoi(strings.TrimSpace(parent))
				if err != nil {
					pid = 0
				}
			}
		}
	}
	return out
}

func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "it has ended"
	}
	const enough = 80
	line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	return line[:min(len(line), enough)]
}
