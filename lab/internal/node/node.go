// Package node makes real Kubernetes nodes on one machine: each is an overlay of
// the machine's own root, booted by systemd-nspawn with systemd as process 1,
// containerd and the kubelet as ordinary units. Its upper layer is the exact list
// of host files that anything on the node changed.
//
// What exists of a node is recorded in its state directory before it is made, so
// that a killed lab can be cleaned: by recorded pid and start time, by mount path
// and by cgroup name, never by a process's name.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpu-operator/lab/internal/hostdiff"
	"gpu-operator/lab/internal/mount"
	"gpu-operator/lab/internal/netns"
)

// RuntimeK3s is a containerd that is run as k3s runs its own: configured by what is
// rendered at each start, a child of another program, on a socket of its own.
const RuntimeK3s = "k3s"

// Binaries are absolute paths of what a node is provisioned with.
type Binaries struct {
	Kubelet, Containerd, Shim, Runc, Ctr string
	// CNIDir holds the CNI plugins ptp, host-local and loopback.
	CNIDir string
	// K3s plays k3s on nodes of that runtime.
	K3s string
	// Gpusim is the node side of the simulated hardware; empty: none.
	Gpusim string
	// DriverRoot is a driver root tree, installed on nodes with Driver "host".
	DriverRoot string
}

// Spec is what a node is made of.
type Spec struct {
	Name, IP, PodCIDR string
	Index             int
	// Runtime is containerd-2, containerd-1.6 or RuntimeK3s.
	Runtime string
	// Driver is host (part of the OS image) or none.
	Driver        string
	DriverVersion string
	// MachineFile is the rendered machine description; empty: no GPU.
	MachineFile string
	Bin         Binaries
	Kubeconfig  []byte
	CA          []byte
	ServingCert []byte
	ServingKey  []byte
	// Images are image archives to import before the kubelet starts.
	Images []string
	// Labels are node labels that the kubelet registers the node with.
	Labels map[string]string
	// StateDir is the lab's state directory.
	StateDir string
}

// Node is one node of the lab.
type Node struct {
	Spec Spec
	dir  string
}

// dirs of a node below its state directory.
func (n *Node) path(elem ...string) string {
	return filepath.Join(append([]string{n.dir}, elem...)...)
}

// Upper is the overlay's upper layer.
func (n *Node) Upper() string { return n.path("layer", "upper") }

// Root is the mounted root of the node.
func (n *Node) Root() string { return n.path("root") }

// nodeDir is where a node of that name keeps its state.
func nodeDir(stateDir, name string) string { return filepath.Join(stateDir, "nodes", name) }

// Create provisions a node; Start boots it. A left-over of the same name is
// removed first.
func Create(ctx context.Context, s Spec) (*Node, error) {
	n := &Node{Spec: s, dir: nodeDir(s.StateDir, s.Name)}
	if err := n.Remove(ctx); err != nil {
		return nil, fmt.Errorf("clearing what is left of node %q: %w", s.Name, err)
	}
	for _, d := range []string{"layer", "root", "disk/containerd", "disk/kubelet"} {
		if err := os.MkdirAll(n.path(d), 0o755); err != nil {
			return nil, fmt.Errorf("making the node's directories: %w", err)
		}
	}
	record, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the node's spec: %w", err)
	}
	if err := replaceFile(n.path("spec.json"), record); err != nil {
		return nil, fmt.Errorf("recording the node: %w", err)
	}
	if err := n.mountRoot(ctx); err != nil {
		return nil, err
	}
	if err := n.provision(ctx); err != nil {
		return nil, fmt.Errorf("provisioning node %q: %w", s.Name, err)
	}
	birth, err := hostdiff.Snapshot(n.Upper())
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(birth)
	if err != nil {
		return nil, fmt.Errorf("encoding the birth manifest: %w", err)
	}
	if err := os.WriteFile(n.path("birth.json"), data, 0o600); err != nil {
		return nil, fmt.Errorf("recording the birth manifest: %w", err)
	}
	return n, nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// must runs a command in the node and makes an exit status other than 0 an error.
func (n *Node) must(ctx context.Context, stdin io.Reader, argv ...string) error {
	var out bytes.Buffer
	code, err := n.Exec(ctx, argv, stdin, &out, &out)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("%q on node %q ended with %d: %s", argv, n.Spec.Name, code, strings.TrimSpace(out.String()))
	}
	return nil
}

// Open returns a node that was created before; fs.ErrNotExist when there is none.
func Open(stateDir, name string) (*Node, error) {
	n := &Node{dir: nodeDir(stateDir, name)}
	data, err := os.ReadFile(n.path("spec.json"))
	if err != nil {
		return nil, fmt.Errorf("opening node %q: %w", name, err)
	}
	if err := json.Unmarshal(data, &n.Spec); err != nil {
		return nil, fmt.Errorf("reading the record of node %q: %w", name, err)
	}
	return n, nil
}

// List returns the names of all nodes recorded in a state directory.
func List(stateDir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(stateDir, "nodes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Start boots the node and waits until its systemd answers and containerd and
// the kubelet are started; images are imported in between.
func (n *Node) Start(ctx context.Context) error {
	if err := n.boot(ctx); err != nil {
		return fmt.Errorf("booting node %q: %w", n.Spec.Name, err)
	}
	if err := netns.AddNodeRoute(ctx, n.Spec.PodCIDR, n.Spec.IP); err != nil {
		return err
	}
	if err := n.waitUnit(ctx, n.runtimeUnit()); err != nil {
		return err
	}
	if err := n.LoadImages(ctx, n.Spec.Images); err != nil {
		return err
	}
	if err := n.must(ctx, nil, "systemctl", "start", "kubelet.service"); err != nil {
		return fmt.Errorf("starting the kubelet: %w", err)
	}
	return n.waitUnit(ctx, "kubelet.service")
}

// Reboot stops the node and boots the same root again: a new boot id, and
// everything that lived on a tmpfs is gone.
func (n *Node) Reboot(ctx context.Context) error {
	if err := n.Stop(ctx); err != nil {
		return err
	}
	return n.Start(ctx)
}

// Remove stops the node and leaves nothing of it.
func (n *Node) Remove(ctx context.Context) error {
	if err := n.stop(ctx, true); err != nil {
		return err
	}
	if n.Spec.PodCIDR != "" {
		if err := netns.DelNodeRoute(ctx, n.Spec.PodCIDR); err != nil {
			return err
		}
	}
	if err := mount.UnmountBelow(n.dir); err != nil {
		return err
	}
	if err := removeCgroups(ctx, cgroupName(n.Spec.Name)); err != nil {
		return err
	}
	if err := os.RemoveAll(n.dir); err != nil {
		return fmt.Errorf("removing the directories of node %q: %w", n.Spec.Name, err)
	}
	return nil
}

// HostDiff lists what changed on the host since birth.
func (n *Node) HostDiff() ([]hostdiff.Change, error) {
	data, err := os.ReadFile(n.path("birth.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the birth manifest: %w", err)
	}
	var birth hostdiff.Manifest
	if err := json.Unmarshal(data, &birth); err != nil {
		return nil, fmt.Errorf("decoding the birth manifest: %w", err)
	}
	now, err := hostdiff.Snapshot(n.Upper())
	if err != nil {
		return nil, err
	}
	return hostdiff.Diff(birth, now, hostdiff.Layer{Dir: "/", Hidden: hidden}), nil
}
