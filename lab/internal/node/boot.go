package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpu-operator/lab/internal/mount"
	"gpu-operator/lab/internal/netns"
	"gpu-operator/lab/internal/process"
)

// Deadlines of one node.
const (
	bootWithin = 60 * time.Second
	stopWithin = 30 * time.Second
	lookEvery  = 100 * time.Millisecond
)

// boot starts systemd-nspawn in cgroups of the node's own, detached from this process.
func (n *Node) boot(ctx context.Context) error {
	if n.Leader() != 0 {
		return nil
	}
	if !mount.At(n.Root()) {
		return fmt.Errorf("the root of node %q is not mounted: it was made in another boot of the machine; remove and add the node", n.Spec.Name)
	}
	procs, err := makeCgroups(cgroupName(n.Spec.Name))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(n.path("console.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the console log: %w", err)
	}
	defer log.Close()
	// The shell moves itself into the node's cgroups, then becomes nspawn: every
	// process of the node is born there.
	script := `n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1"; shift; n=$((n-1)); done; exec "$@"`
	args := append([]string{"-ec", script, "gpulab-node", strconv.Itoa(len(procs))}, procs...)
	args = append(args, "nsenter", "--net="+netns.Path(), "--", "systemd-nspawn",
		"--quiet", "--register=no", "--keep-unit", "--boot", "--directory="+n.Root(), "--machine="+n.Spec.Name,
		"--network-bridge="+netns.Bridge, "--capability=all", "--console=passive", "--link-journal=no",
		"--resolv-conf=off", "--timezone=off", "--system-call-filter=@keyring landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf perf_event_open",
		"--bind="+n.path("disk", "containerd")+":/var/lib/containerd", "--bind="+n.path("disk", "kubelet")+":/var/lib/kubelet")
	// Not bound to ctx: it outlives this process.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting systemd-nspawn: %w", err)
	}
	if err := process.Record(n.path("nspawn.pid"), cmd.Process.Pid); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return n.waitBooted(ctx, exited)
}

// waitBooted waits until the node's systemd takes commands.
func (n *Node) waitBooted(ctx context.Context, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-exited:
			return fmt.Errorf("systemd-nspawn ended: %w: %s", err, n.console())
		case <-ctx.Done():
			return fmt.Errorf("systemd did not answer within %s: %s", bootWithin, n.console())
		case <-tick.C:
		}
		if n.Leader() == 0 {
			continue
		}
		if code, err := n.Exec(ctx, []string{"systemctl", "is-active", "--quiet", "sysinit.target"}, nil, io.Discard, io.Discard); err == nil && code == 0 {
			return nil
		}
	}
}

// waitUnit waits until a unit is active.
func (n *Node) waitUnit(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if code, err := n.Exec(ctx, []string{"systemctl", "is-active", "--quiet", name}, nil, io.Discard, io.Discard); err == nil && code == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			var out bytes.Buffer
			_, _ = n.Exec(context.WithoutCancel(ctx), []string{"systemctl", "status", "--no-pager", "-n", "20", name}, nil, &out, &out)
			return fmt.Errorf("unit %q of node %q was not active within %s:\n%s", name, n.Spec.Name, bootWithin, out.String())
		case <-tick.C:
		}
	}
}

// console is the end of what nspawn printed.
func (n *Node) console() string {
	data, err := os.ReadFile(n.path("console.log"))
	if err != nil {
		return err.Error()
	}
	if len(data) > 2000 {
		data = data[len(data)-2000:]
	}
	return string(data)
}

// Leader is the pid of the node's systemd on the machine; 0 when it is not running.
func (n *Node) Leader() int {
	pid := process.Live(n.path("nspawn.pid"))
	if pid == 0 {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	for f := range strings.FieldsSeq(string(data)) {
		child, err := strconv.Atoi(f)
		if err != nil {
			continue
		}
		// The leader is the child with a pid namespace of its own.
		mine, err1 := os.Readlink("/proc/self/ns/pid")
		its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", child))
		if err1 == nil && err2 == nil && mine != its {
			return child
		}
	}
	return 0
}

// Stop shuts the node down: first by asking its systemd, then by force.
func (n *Node) Stop(ctx context.Context) error { return n.stop(ctx, false) }

// stop ends the node; force does not ask its systemd first, for a node of which
// nothing is to be kept.
func (n *Node) stop(ctx context.Context, force bool) error {
	pid := process.Live(n.path("nspawn.pid"))
	if pid != 0 {
		if leader := n.Leader(); leader != 0 && !force {
			// SIGRTMIN+4 asks systemd to power off.
			_ = unix.Kill(leader, syscall.Signal(34+4))
		}
		if force || !process.WaitGone(ctx, n.path("nspawn.pid"), stopWithin) {
			if leader := n.Leader(); leader != 0 {
				_ = unix.Kill(leader, unix.SIGKILL)
			}
			_ = unix.Kill(pid, unix.SIGKILL)
			if !process.WaitGone(ctx, n.path("nspawn.pid"), stopWithin) {
				return fmt.Errorf("process %d of node %q does not end", pid, n.Spec.Name)
			}
		}
	}
	if err := killCgroup(ctx, cgroupName(n.Spec.Name)); err != nil {
		return err
	}
	return removeCgroups(ctx, cgroupName(n.Spec.Name))
}

// Exec runs a command in the node and returns its exit status.
func (n *Node) Exec(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	leader := n.Leader()
	if leader == 0 {
		return -1, fmt.Errorf("node %q is not running", n.Spec.Name)
	}
	args := append([]string{"-t", strconv.Itoa(leader), "-m", "-p", "-n", "-i", "-u", "-C", "-r", "-w", "--",
		"/usr/bin/env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=dumb"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return -1, fmt.Errorf("running %q on node %q: %w", argv, n.Spec.Name, err)
	}
	return 0, nil
}

// LoadImages imports image archives into the node's containerd.
func (n *Node) LoadImages(ctx context.Context, tars []string) error {
	for _, t := range tars {
		f, err := os.Open(t)
		if err != nil {
			return fmt.Errorf("opening image %q: %w", t, err)
		}
		argv := []string{"ctr", "--address", n.socket(), "-n", "k8s.io", "images", "import"}
		if n.Spec.Runtime != "containerd-1.6" {
			argv = append(argv, "--local") // what 1.6 always does
		}
		err = n.must(ctx, f, append(argv, "-")...)
		f.Close()
		if err != nil {
			return fmt.Errorf("importing image %q: %w", filepath.Base(t), err)
		}
	}
	return nil
}
