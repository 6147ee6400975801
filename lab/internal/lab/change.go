package lab

import (
	"context"
	"errors"
	"fmt"

	"gpu-operator/lab/internal/image"
	"gpu-operator/lab/internal/node"
)

// change runs do under the lab's lock, on a running lab.
func (l *Lab) change(ctx context.Context, do func(*State) error) error {
	if err := l.RequireUp(); err != nil {
		return err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := l.Read()
	if err != nil {
		return err
	}
	return do(&state)
}

// AddNode makes one more node; name may be empty. It returns when the node is
// Ready.
func (l *Lab) AddNode(ctx context.Context, name string, w Wish) error {
	machines, err := l.Machines()
	if err != nil {
		return err
	}
	w.Nodes = 1
	wanted, err := w.Expand(machines)
	if err != nil {
		return err
	}
	// What cannot be built is said before there is half a node.
	if _, err := l.binaries(ctx, wanted[0]); err != nil {
		return err
	}
	return l.change(ctx, func(s *State) error {
		wanted[0].Name = name
		n, err := s.Add(wanted[0])
		if err != nil {
			return err
		}
		if err := writeState(l.State, *s); err != nil {
			return err
		}
		return l.startNodes(ctx, []Node{n}, l.presentImages())
	})
}

// presentImages lists the archives that were built for this lab.
func (l *Lab) presentImages() []string {
	var tars []string
	for _, r := range image.Recipes() {
		short := r.Short + "-dev"
		if r.Short == image.Driver {
			short = r.Short + "-" + DefaultDriverVersion
		}
		if b, err := image.Read(l.imagesDir(), short); err == nil {
			tars = append(tars, b.Tar)
		}
	}
	return tars
}

// RemoveNode takes a node away: the machine, its pods and its Node object.
func (l *Lab) RemoveNode(ctx context.Context, name string) error {
	return l.change(ctx, func(s *State) error {
		if _, err := s.Find(name); err != nil {
			return err
		}
		if err := errors.Join(l.removeNode(ctx, name), l.forget(ctx, name)); err != nil {
			return err
		}
		s.Remove(name)
		return writeState(l.State, *s)
	})
}

// RebuildNode removes a node and makes it anew under the same name, with nothing
// left of the old one: what a re-installed machine is.
func (l *Lab) RebuildNode(ctx context.Context, name string) error {
	return l.change(ctx, func(s *State) error {
		n, err := s.Find(name)
		if err != nil {
			return err
		}
		if err := errors.Join(l.removeNode(ctx, name), l.forget(ctx, name)); err != nil {
			return err
		}
		return l.startNodes(ctx, []Node{n}, l.presentImages())
	})
}

// RebootNode stops a node cleanly and boots it again; it returns when the node is
// Ready in the new boot.
func (l *Lab) RebootNode(ctx context.Context, name string) error {
	return l.change(ctx, func(s *State) error {
		n, err := s.Find(name)
		if err != nil {
			return err
		}
		opened, err := node.Open(l.State, name)
		if err != nil {
			return fmt.Errorf("opening node %q: %w", name, err)
		}
		begun := l.Now()
		if err := opened.Reboot(ctx); err != nil {
			return fmt.Errorf("rebooting node %q: %w", name, err)
		}
		l.Step("node %s has rebooted: %s", name, l.since(begun))
		return l.waitReady(ctx, []Node{n})
	})
}

// LoadImages builds images (none named: all) and imports them on every node.
func (l *Lab) LoadImages(ctx context.Context, version string, shorts ...string) error {
	return l.change(ctx, func(s *State) error {
		built, err := l.BuildImages(ctx, version, shorts...)
		if err != nil {
			return err
		}
		var tars []string
		for _, b := range built {
			tars = append(tars, b.Tar)
		}
		for _, n := range s.Nodes {
			begun := l.Now()
			opened, err := node.Open(l.State, n.Name)
			if err != nil {
				return fmt.Errorf("opening node %q: %w", n.Name, err)
			}
			if err := opened.LoadImages(ctx, tars); err != nil {
				return fmt.Errorf("loading images on node %q: %w", n.Name, err)
			}
			l.Step("node %s has %d images loaded: %s", n.Name, len(tars), l.since(begun))
		}
		return nil
	})
}

// Status is the lab at a glance.
type Status struct {
	// Up says whether the API server runs.
	Up bool `json:"up"`
	// State, Cache and Kubeconfig are paths.
	State      string `json:"state"`
	Cache      string `json:"cache"`
	Kubeconfig string `json:"kubeconfig"`
	// Processes are the control plane's, Nodes the lab's.
	Processes []ProcessStatus `json:"processes"`
	Nodes     []NodeStatus    `json:"nodes"`
}

// ProcessStatus is one program of the control plane; PID 0: it does not run.
type ProcessStatus struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Log  string `json:"log"`
}

// NodeStatus is a node with what can be seen of it now.
type NodeStatus struct {
	Node

	// IP is the node's address, Leader the process id of its PID 1 (0: stopped).
	IP     string `json:"ip"`
	Leader int    `json:"leader"`
	// Ready is what the API says: "True", "False", "Unknown" or "" (no answer).
	Ready string `json:"ready"`
}

// Status looks at the lab; it changes nothing.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	s := Status{Up: l.Running(), State: l.State, Cache: l.Cache, Kubeconfig: l.Kubeconfig()}
	for _, p := range l.ControlPlane().Status() {
		s.Processes = append(s.Processes, ProcessStatus(p))
	}
	state, err := l.Read()
	if err != nil {
		return s, err
	}
	for _, n := range state.Nodes {
		st := NodeStatus{Node: n, IP: n.IP()}
		if opened, err := node.Open(l.State, n.Name); err == nil {
			st.Leader = opened.Leader()
		}
		if s.Up {
			st.Ready = l.readyWord(ctx, n.Name)
		}
		s.Nodes = append(s.Nodes, st)
	}
	return s, nil
}
