// Package netns is the lab's network: one network namespace with one bridge, in
// which the control plane and all nodes live. Nothing of it reaches the machine's
// own network. The service address of the API server is an address of the bridge
// itself, so that no service proxy is needed.
package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Addresses and names of the lab's network.
const (
	// Name is the network namespace, as in `ip netns`.
	Name = "gpulab"
	// Bridge connects the nodes.
	Bridge = "gpulab0"
	// Gateway is the bridge's address: the control plane as the nodes see it.
	Gateway = "10.200.0.1"
	// Mask is the prefix length of the nodes' network.
	Mask = 16
	// ServiceIP is the cluster IP of the service "kubernetes".
	ServiceIP = "10.96.0.1"
)

// Path is the file that names the namespace.
func Path() string { return "/run/netns/" + Name }

// Exists reports whether the namespace is there.
func Exists() bool {
	// A killed `ip netns add` leaves a plain file in its place.
	var fs unix.Statfs_t
	return unix.Statfs(Path(), &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// Up creates what is missing of the namespace, the bridge and its addresses.
func Up(ctx context.Context) error {
	if !Exists() {
		if err := os.Remove(Path()); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("clearing what is left of namespace %q: %w", Name, err)
		}
		if err := ip(exec.CommandContext(ctx, "ip", "netns", "add", Name)); err != nil {
			return err
		}
	}
	for _, args := range []string{
		"link set lo up",
		"link add " + Bridge + " type bridge",
		fmt.Sprintf("addr add %s/%d dev %s", Gateway, Mask, Bridge),
		fmt.Sprintf("addr add %s/32 dev %s", ServiceIP, Bridge),
		"link set " + Bridge + " up",
	} {
		if err := ip(Command(ctx, "ip", strings.Fields(args)...)); err != nil {
			return err
		}
	}
	// The bridge routes between nodes and Pods.
	sysctl := Command(ctx, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	if out, err := sysctl.CombinedOutput(); err != nil {
		return fmt.Errorf("switching on forwarding in namespace %q: %w: %s", Name, err, out)
	}
	return nil
}

// Down removes the namespace and with it the bridge; an absent one is no error.
func Down(ctx context.Context) error {
	if !Exists() {
		return nil
	}
	return ip(exec.CommandContext(ctx, "ip", "netns", "delete", Name))
}

// Command is exec.CommandContext inside the namespace. It enters with nsenter:
// `ip netns exec` would mount another /sys and hide the cgroups.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + Path(), "--", name}, args...)...)
}

// AddNodeRoute routes a node's Pod network through the node.
func AddNodeRoute(ctx context.Context, podCIDR, nodeIP string) error {
	return ip(Command(ctx, "ip", "route", "replace", podCIDR, "via", nodeIP, "dev", Bridge))
}

// DelNodeRoute takes the route back; an absent one is no error.
func DelNodeRoute(ctx context.Context, podCIDR string) error {
	if !Exists() {
		return nil
	}
	return ip(Command(ctx, "ip", "route", "del", podCIDR))
}

// ip runs an ip command; that something is there already (or gone already) is
// what was asked for.
func ip(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		for _, fine := range []string{"File exists", "already assigned", "No such process"} {
			if strings.Contains(string(out), fine) {
				return nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("running %q: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
