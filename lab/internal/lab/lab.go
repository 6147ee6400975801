package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gpu-operator/lab/internal/build"
	"gpu-operator/lab/internal/controlplane"
	"gpu-operator/lab/internal/netns"
)

// Config says where a lab is. Every field must be set.
type Config struct {
	// Repo is the source tree's root.
	Repo string
	// Cache keeps built programs, State the lab itself, Run its pid files.
	Cache, State, Run string
	// Out gets the progress lines.
	Out io.Writer
	// Now is the clock.
	Now func() time.Time
}

// Lab is one lab on this machine.
type Lab struct {
	Config

	progress *build.Progress
	builder  *build.Builder
}

// Open prepares to work with the lab of a configuration; it changes nothing.
func Open(ctx context.Context, c Config) (*Lab, error) {
	version, err := build.GoVersion(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lab{Config: c, progress: build.NewProgress(c.Out, c.Now)}
	l.builder = &build.Builder{Repo: c.Repo, Cache: c.Cache, GoVersion: version, Progress: l.progress}
	return l, nil
}

// Builder fills the lab's cache.
func (l *Lab) Builder() *build.Builder { return l.builder }

// Step prints a progress line.
func (l *Lab) Step(format string, args ...any) { l.progress.Step(format, args...) }

// Read returns what the lab consists of.
func (l *Lab) Read() (State, error) { return readState(l.State) }

// Kubeconfig is the administrator's client configuration, for use inside the
// lab's network.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.State, "kubeconfig") }

// controlPlane describes the control plane; etcd and kube are the programs'
// folders ("" when it is only to be stopped or looked at).
func (l *Lab) controlPlane(etcd, kube string) *controlplane.ControlPlane {
	return &controlplane.ControlPlane{
		Dirs:  controlplane.Dirs{State: l.State, Run: l.Run, Etcd: etcd, Kube: kube},
		Enter: netns.Command, Netns: netns.Path(), Now: l.Now, Step: l.progress.Step,
	}
}

// ControlPlane gives access to the running control plane.
func (l *Lab) ControlPlane() *controlplane.ControlPlane { return l.controlPlane("", "") }

// Running says whether the lab's API server runs.
func (l *Lab) Running() bool {
	for _, p := range l.ControlPlane().Status() {
		if p.Name == "kube-apiserver" {
			return p.PID != 0
		}
	}
	return false
}

// errNotUp is what commands say that need a lab.
var errNotUp = errors.New("the lab is not up: `gpulab up` starts it")

// RequireUp is an error with a remedy when there is no running lab.
func (l *Lab) RequireUp() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root: run gpulab with sudo")
	}
	if !l.Running() {
		return errNotUp
	}
	return nil
}

// Command makes a command inside the lab's network, with KUBECONFIG set and the
// lab's own kubectl and helm first in PATH.
func (l *Lab) Command(ctx context.Context, argv []string, tools ...string) (*exec.Cmd, error) {
	if err := l.RequireUp(); err != nil {
		return nil, err
	}
	path := []string{}
	for _, t := range append([]string{build.Kube}, tools...) {
		dir, err := l.builder.Build(ctx, t)
		if err != nil {
			return nil, err
		}
		path = append(path, dir)
	}
	// The program is looked for in the new PATH: nsenter does that itself.
	cmd := netns.Command(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+l.Kubeconfig(),
		"GPULAB_STATE="+l.State, "GPULAB_CACHE="+l.Cache, "GPULAB_RUN="+l.Run, "GPULAB_REPO="+l.Repo,
		"PATH="+strings.Join(append(path, os.Getenv("PATH")), ":")) //nolint:forbidigo // a command of a person runs as in the person's shell
	return cmd, nil
}

// lockWait is how often a command that waits for another looks again.
const lockWait = 200 * time.Millisecond

// lock lets one command at a time change the lab; who waits says for whom. The
// kernel frees the lock when its holder dies.
func (l *Lab) lock(ctx context.Context) (unlock func(), err error) {
	path := l.Run + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the lab's lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lab's lock: %w", err)
	}
	for told := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking the lab: %w", err), f.Close())
		}
		if !told {
			holder, _ := os.ReadFile(path) // Only for the message.
			l.Step("waiting for another command that changes this lab: %s", strings.TrimSpace(string(holder)))
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for the lab's lock: %w", ctx.Err()), f.Close())
		case <-time.After(lockWait):
		}
	}
	holder := fmt.Sprintf("process %d (%s)\n", os.Getpid(), strings.Join(os.Args, " "))
	if err := errors.Join(f.Truncate(0), writeAt(f, holder)); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lab's lock: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}
