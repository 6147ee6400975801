package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// layerSize bounds what a node may write to its root; the layer is memory.
const layerSize = "size=2g,mode=0755"

// emptied are directories of the machine that a node sees empty: what the machine
// runs, keeps or was set up with is none of the node's business.
func emptied() []string {
	return []string{
		"/root", "/home", "/opt", "/srv", "/usr/local", "/var/cache", "/var/log", "/var/tmp",
		"/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet", "/var/lib/gpulab", "/var/lib/machines",
		"/var/lib/postgresql", "/var/lib/nvidia", "/var/lib/gpu-operator", "/var/lib/systemd",
		"/etc/systemd/system", "/etc/init.d", "/etc/rcS.d", "/etc/rc0.d", "/etc/rc1.d", "/etc/rc2.d",
		"/etc/rc3.d", "/etc/rc4.d", "/etc/rc5.d", "/etc/rc6.d", "/etc/cron.d", "/etc/cron.daily",
		"/etc/containerd", "/etc/cni", "/etc/cdi", "/etc/kubernetes", "/etc/docker", "/etc/nvidia-container-runtime",
	}
}

// standard are the top-level directories that a node shares with the machine; all
// others are hidden.
func standard() []string {
	return []string{
		"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt",
		"proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var",
	}
}

// hidden reports whether the machine's file at path is not part of the node's
// lower layer.
func hidden(path string) bool {
	for _, d := range emptied() {
		if strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return !slices.Contains(standard(), top)
}

// mountRoot mounts the node's layer and, over the machine's root, the overlay.
func (n *Node) mountRoot(_ context.Context) error {
	layer := n.path("layer")
	if err := unix.Mount("gpulab-"+n.Spec.Name, layer, "tmpfs", 0, layerSize); err != nil {
		return fmt.Errorf("mounting the node's layer on %q: %w", layer, err)
	}
	work := n.path("layer", "work")
	for _, d := range []string{n.Upper(), work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("making %q: %w", d, err)
		}
	}
	if err := n.hideMachine(); err != nil {
		return err
	}
	opts := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", n.Upper(), work)
	if err := unix.Mount("overlay", n.Root(), "overlay", 0, opts); err != nil {
		return fmt.Errorf("mounting the root of node %q (overlay of /): %w", n.Spec.Name, err)
	}
	return nil
}

// hideMachine writes whiteouts and opaque directories into the upper layer.
func (n *Node) hideMachine() error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("reading the machine's root: %w", err)
	}
	for _, e := range entries {
		if !hidden("/" + e.Name()) {
			continue
		}
		if err := unix.Mknod(filepath.Join(n.Upper(), e.Name()), unix.S_IFCHR, 0); err != nil {
			return fmt.Errorf("hiding %q: %w", "/"+e.Name(), err)
		}
	}
	for _, d := range emptied() {
		if err := n.emptyDir(d); err != nil {
			return err
		}
	}
	return nil
}

// emptyDir makes the directory d of the machine, with its parents as they are,
// opaque in the upper layer. One that the machine lacks is left out.
func (n *Node) emptyDir(d string) error {
	switch info, err := os.Lstat(d); {
	case os.IsNotExist(err) || err == nil && !info.IsDir():
		return nil
	case err != nil:
		return fmt.Errorf("reading %q: %w", d, err)
	}
	var at strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(d, "/"), "/") {
		at.WriteString("/" + part)
		info, err := os.Stat(at.String())
		if err != nil {
			return fmt.Errorf("reading %q: %w", at.String(), err)
		}
		up := n.Upper() + at.String()
		if err := os.Mkdir(up, info.Mode().Perm()); err != nil && !os.IsExist(err) {
			return fmt.Errorf("making %q: %w", up, err)
		}
		if err := os.Chmod(up, info.Mode().Perm()|info.Mode()&os.ModeSticky); err != nil {
			return fmt.Errorf("setting the mode of %q: %w", up, err)
		}
	}
	if err := unix.Setxattr(n.Upper()+d, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		return fmt.Errorf("emptying %q: %w", d, err)
	}
	return nil
}

// copyTree copies a directory tree with modes and links, as `cp -a` does.
func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %q to %q: %w: %s", from, to, err, out)
	}
	return nil
}
