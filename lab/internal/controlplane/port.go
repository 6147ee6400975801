package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ports are what each program of the control plane listens on.
func ports() map[string][]int {
	return map[string][]int{
		"etcd": {2379, 2380}, "kube-apiserver": {6443}, "kube-controller-manager": {10257}, "kube-scheduler": {10259},
	}
}

// portsFree is an error that names who listens on one of the ports in the network
// namespace at path.
func portsFree(path string, wanted []int) error {
	tables, err := socketTables(path)
	if err != nil {
		return err
	}
	for _, port := range wanted {
		inode, taken := listener(tables, port)
		if !taken {
			continue
		}
		return fmt.Errorf("port %d in the lab's network is taken by %s: end it, or `gpulab down`, then `gpulab up` again", port, owner(inode))
	}
	return nil
}

// socketTables reads the kernel's tables of TCP sockets inside a network namespace.
// The thread that goes there is not given back.
func socketTables(path string) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Close(fd))
		}
		if err != nil {
			done <- result{err: fmt.Errorf("entering network namespace %q: %w", path, err)}
			return
		}
		var text strings.Builder
		for _, f := range []string{"tcp", "tcp6"} {
			data, err := os.ReadFile("/proc/thread-self/net/" + f)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // no IPv6
				done <- result{err: fmt.Errorf("reading the table of sockets: %w", err)}
				return
			}
			text.Write(data)
		}
		done <- result{text: text.String()}
	}()
	r := <-done
	return r.text, r.err
}

// listener finds the socket that listens on a port in /proc/net/tcp's format: its
// second field ends with the port in hexadecimal, its fourth is the state, its tenth
// the inode.
func listener(tables string, port int) (inode string, found bool) {
	const listening, fields = "0A", 10
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(tables) {
		f := strings.Fields(line)
		if len(f) >= fields && strings.HasSuffix(f[1], suffix) && f[3] == listening {
			return f[9], true
		}
	}
	return "", false
}

// owner names the process that holds a socket.
func owner(inode string) string {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, l := range links {
		if to, err := os.Readlink(l); err != nil || to != "socket:["+inode+"]" {
			continue
		}
		pid, _, _ := strings.Cut(strings.TrimPrefix(l, "/proc/"), "/")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			continue // it has just ended
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return "somebody whom this machine does not show"
}
