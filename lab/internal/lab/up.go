package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gpu-operator/lab/internal/build"
	"gpu-operator/lab/internal/controlplane"
	"gpu-operator/lab/internal/image"
	"gpu-operator/lab/internal/mount"
	"gpu-operator/lab/internal/netns"
	"gpu-operator/lab/internal/node"
)

// UpOptions say what `up` makes.
type UpOptions struct {
	// Wish is what a new lab's nodes are to be; an existing lab keeps its nodes,
	// and gets the ones that are missing to Wish.Nodes.
	Wish Wish
	// SkipProduct leaves the product's own images out (for work on the lab alone).
	SkipProduct bool
}

// Up makes the lab, or completes one that is partly there.
func (l *Lab) Up(ctx context.Context, o UpOptions) error {
	begun := l.Now()
	if err := build.Prepare(ctx, l.progress); err != nil {
		return fmt.Errorf("preparing the machine: %w", err)
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := l.plan(o)
	if err != nil {
		return err
	}
	cp, err := l.programs(ctx)
	if err != nil {
		return err
	}
	images, err := l.images(ctx, o.SkipProduct)
	if err != nil {
		return err
	}
	// Written first: from here on there is something that `down` must find.
	if err := writeState(l.State, state); err != nil {
		return err
	}
	if err := netns.Up(ctx); err != nil {
		return fmt.Errorf("making the lab's network: %w", err)
	}
	if err := cp.Up(ctx); err != nil {
		return fmt.Errorf("bringing the control plane up: %w", err)
	}
	if err := l.startNodes(ctx, state.Nodes, images); err != nil {
		return err
	}
	l.Step("the lab is up (%d nodes): %s; `gpulab kubectl -- get nodes` shows it, `gpulab down` ends it", len(state.Nodes), l.since(begun))
	return nil
}

// plan adds the nodes that are missing to what was asked.
func (l *Lab) plan(o UpOptions) (State, error) {
	state, err := l.Read()
	if err != nil {
		return State{}, err
	}
	state.Repo = l.Repo
	if len(state.Nodes) >= o.Wish.Nodes {
		if len(state.Nodes) > o.Wish.Nodes {
			l.Step("the lab has %d nodes already and keeps them (`gpulab node remove NAME` takes one away)", len(state.Nodes))
		}
		return state, nil
	}
	machines, err := l.Machines()
	if err != nil {
		return State{}, err
	}
	wanted, err := o.Wish.Expand(machines)
	if err != nil {
		return State{}, err
	}
	for _, n := range wanted[len(state.Nodes):] {
		if _, err := state.Add(n); err != nil {
			return State{}, err
		}
	}
	return state, nil
}

// programs builds what the control plane runs.
func (l *Lab) programs(ctx context.Context) (*controlplane.ControlPlane, error) {
	etcd, err := l.builder.Build(ctx, build.Etcd)
	if err != nil {
		return nil, err
	}
	kube, err := l.builder.Build(ctx, build.Kube)
	if err != nil {
		return nil, err
	}
	return l.controlPlane(etcd, kube), nil
}

// images builds the images that nodes start with and returns their archives.
func (l *Lab) images(ctx context.Context, skipProduct bool) ([]string, error) {
	shorts := []string{image.Pause, image.Workload}
	if !skipProduct {
		shorts = append(shorts, image.Operator, image.Node, image.Driver)
	}
	built, err := l.BuildImages(ctx, DefaultDriverVersion, shorts...)
	if err != nil {
		return nil, err
	}
	tars := make([]string, 0, len(built))
	for _, b := range built {
		tars = append(tars, b.Tar)
	}
	return tars, nil
}

// startNodes starts the nodes that do not run, one after the other (the machine
// is small), and then waits for all together.
func (l *Lab) startNodes(ctx context.Context, nodes []Node, images []string) error {
	for _, n := range nodes {
		if err := l.startNode(ctx, n, images); err != nil {
			return err
		}
	}
	return l.waitReady(ctx, nodes)
}

// Down removes the lab: processes, nodes, mounts, network, state. It finds what a
// killed command left, and goes on when a part resists, to report all at the end.
func (l *Lab) Down(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root: run gpulab with sudo")
	}
	begun := l.Now()
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	// By what is on disk, which may be more than the state file knows.
	names, err := node.List(l.State)
	errs = append(errs, err)
	for _, name := range names {
		errs = append(errs, l.removeNode(ctx, name))
	}
	errs = append(errs, l.ControlPlane().Down(ctx), l.endStrays(ctx))
	if err := netns.Down(ctx); err != nil {
		errs = append(errs, fmt.Errorf("removing the lab's network: %w", err))
	}
	errs = append(errs, mount.UnmountBelow(l.State), mount.UnmountBelow(l.Run))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("taking the lab down (run it again when the cause is gone): %w", err)
	}
	if err := errors.Join(os.RemoveAll(l.State), os.RemoveAll(l.Run)); err != nil {
		return fmt.Errorf("removing the lab's folders: %w", err)
	}
	l.Step("the lab is down: %s", l.since(begun))
	return nil
}

// removeNode stops a node and removes all of it from the machine.
func (l *Lab) removeNode(ctx context.Context, name string) error {
	begun := l.Now()
	n, err := node.Open(l.State, name)
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(filepath.Join(l.State, "nodes", name))
	}
	if err != nil {
		return fmt.Errorf("opening node %q: %w", name, err)
	}
	if err := n.Remove(ctx); err != nil {
		return fmt.Errorf("removing node %q: %w", name, err)
	}
	l.Step("node %s is removed: %s", name, l.since(begun))
	return nil
}
