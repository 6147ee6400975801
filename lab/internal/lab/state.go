package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// State is what a lab consists of, as written to its state folder.
type State struct {
	// Repo is the source tree that the lab was made from.
	Repo string `json:"repo"`
	// Nodes are ordered by index.
	Nodes []Node `json:"nodes"`
}

// Node is one node of the lab, as it was asked for.
type Node struct {
	Name string `json:"name"`
	// Index gives the node its addresses; no two nodes of a lab have the same.
	Index int `json:"index"`
	// GPUs and Machine are what it has ("" and 0: no GPU).
	GPUs    int    `json:"gpus"`
	Machine string `json:"machine,omitempty"`
	// Driver is "host" (in the OS image) or "none"; DriverVersion that of "host".
	Driver        string `json:"driver"`
	DriverVersion string `json:"driverVersion,omitempty"`
	// Runtime is the container runtime's release.
	Runtime string `json:"runtime"`
	// Labels are what the kubelet registers the node with.
	Labels map[string]string `json:"labels,omitempty"`
}

// The values that a node may have.
const (
	DriverHost = "host"
	DriverNone = "none"

	RuntimeContainerd2  = "containerd-2"
	RuntimeContainerd16 = "containerd-1.6"
	// RuntimeK3s is a containerd that is run as k3s runs its own.
	RuntimeK3s = "k3s"
)

// maxIndex is bounded by the third number of a pod range (10.201.<index>.0/24).
const maxIndex = 200

// IP is the node's address.
func (n Node) IP() string { return fmt.Sprintf("10.200.0.%d", 10+n.Index) }

// PodCIDR is the range of its pods.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.201.%d.0/24", n.Index) }

// Hardware describes the node's GPUs as in the --gpus flag.
func (n Node) Hardware() string {
	if n.GPUs == 0 {
		return "none"
	}
	return fmt.Sprintf("%dx%s", n.GPUs, n.Machine)
}

// Find returns the node of that name; an unknown one is an error that lists the
// nodes there are.
func (s State) Find(name string) (Node, error) {
	var known []string
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, nil
		}
		known = append(known, n.Name)
	}
	if len(known) == 0 {
		return Node{}, fmt.Errorf("node %q does not exist: the lab has no nodes (`gpulab node add` makes one)", name)
	}
	return Node{}, fmt.Errorf("node %q does not exist: the lab has %s", name, strings.Join(known, ", "))
}

// Add gives a node the lowest free index and, unless it has one, the next free
// name (gpu-N, or cpu-N without GPUs).
func (s *State) Add(n Node) (Node, error) {
	used, names := map[int]bool{}, map[string]bool{}
	for _, o := range s.Nodes {
		used[o.Index], names[o.Name] = true, true
	}
	for n.Index = 1; used[n.Index]; n.Index++ {
	}
	if n.Index > maxIndex {
		return Node{}, fmt.Errorf("a lab has at most %d nodes (`gpulab fleet` is for more)", maxIndex)
	}
	if n.Name == "" {
		prefix := "gpu-"
		if n.GPUs == 0 {
			prefix = "cpu-"
		}
		for i := 1; n.Name == "" || names[n.Name]; i++ {
			n.Name = fmt.Sprintf("%s%d", prefix, i)
		}
	}
	if names[n.Name] {
		return Node{}, fmt.Errorf("node %q exists already", n.Name)
	}
	s.Nodes = append(s.Nodes, n)
	slices.SortFunc(s.Nodes, func(a, b Node) int { return a.Index - b.Index })
	return n, nil
}

// Remove forgets a node.
func (s *State) Remove(name string) {
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n Node) bool { return n.Name == name })
}

// readState reads a lab's state; no file is an empty lab.
func readState(dir string) (State, error) {
	var s State
	b, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading the lab's state: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("parsing the lab's state %q: %w (`gpulab down` removes the lab)", filepath.Join(dir, "lab.json"), err)
	}
	return s, nil
}

// writeState puts the state in place at once.
func writeState(dir string, s State) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the lab's state: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the lab's state folder: %w", err)
	}
	path := filepath.Join(dir, "lab.json")
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the lab's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("putting the lab's state in place: %w", err)
	}
	return nil
}
