package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupName names the cgroups of a node.
func cgroupName(node string) string { return "gpulab-" + node }

// hierarchies are the mount points of the machine's cgroup hierarchies.
func hierarchies() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	defer f.Close()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		if ok && strings.HasPrefix(after, "cgroup") {
			points = append(points, strings.Fields(before)[4])
		}
	}
	return points, lines.Err()
}

// makeCgroups makes one cgroup of that name below the root of every hierarchy
// (two nodes whose systemds shared one would stop each other's units) and returns
// the files to write a pid to. The machine's own cgroups are left as they are.
func makeCgroups(name string) ([]string, error) {
	points, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var procs []string
	for _, p := range points {
		dir := filepath.Join(p, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, fmt.Errorf("making cgroup %q: %w", dir, err)
		}
		// A cpuset takes no process before it has processors and memory nodes.
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(p, f))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, f), all, 0o644); err != nil {
				return nil, fmt.Errorf("setting %s of %q: %w", f, dir, err)
			}
		}
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
	}
	return procs, nil
}

// cgroupDirs are all cgroups of that name, deepest first.
func cgroupDirs(name string) ([]string, error) {
	points, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, p := range points {
		var below []string
		err := filepath.WalkDir(filepath.Join(p, name), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, b := range slices.Backward(below) {
			dirs = append(dirs, b)
		}
	}
	return dirs, nil
}

// killCgroup ends every process that is left in the cgroups of that name: shims
// and containers of a node whose systemd was killed.
func killCgroup(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		left, err := pidsIn(name)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v in cgroup %q do not end", left, name)
		case <-tick.C:
		}
	}
}

// pidsIn are the processes in the cgroups of that name.
func pidsIn(name string) ([]int, error) {
	dirs, err := cgroupDirs(name)
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	var pids []int
	for _, d := range dirs {
		data, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// removeCgroups removes the cgroups of that name from every hierarchy.
func removeCgroups(ctx context.Context, name string) error {
	dirs, err := cgroupDirs(name)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := removeCgroup(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes one cgroup; a process that has just ended may keep it busy
// for a moment.
func removeCgroup(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := os.Remove(dir)
		switch {
		case err == nil || os.IsNotExist(err):
			return nil
		case !errors.Is(err, unix.EBUSY):
			return fmt.Errorf("removing cgroup %q: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing cgroup %q: %w (%w)", dir, err, ctx.Err())
		case <-tick.C:
		}
	}
}
