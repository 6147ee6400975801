package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"gpu-operator/lab/internal/k3slike"
	"gpu-operator/lab/internal/netns"
)

// born is the modification time of every provisioned file: two nodes built alike
// are alike to the byte.
func born() time.Time { return time.Unix(1700000000, 0) }

// file is one provisioned file: content, or a copy of a file of the machine.
type file struct {
	path    string
	mode    os.FileMode
	content string
	from    string
	link    string
}

// provision writes everything that makes the overlay a node.
func (n *Node) provision(ctx context.Context) error {
	if n.Spec.Driver == "host" && n.Spec.MachineFile != "" {
		if err := copyTree(ctx, n.Spec.Bin.DriverRoot, n.Root()); err != nil {
			return fmt.Errorf("installing the driver into the OS image: %w", err)
		}
		// Where the simulated kernel keeps the GPUs' state: a real driver package brings
		// its firmware there.
		if err := os.MkdirAll(filepath.Join(n.Root(), "usr/lib/firmware/nvidia", n.Spec.DriverVersion), 0o755); err != nil {
			return fmt.Errorf("making the driver's firmware directory: %w", err)
		}
	}
	for _, f := range n.files() {
		if err := n.write(f); err != nil {
			return err
		}
	}
	return nil
}

// write places one file below the root.
func (n *Node) write(f file) error {
	to := filepath.Join(n.Root(), f.path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("making the directory of %q: %w", f.path, err)
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("replacing %q: %w", f.path, err)
	}
	if f.link != "" {
		if err := os.Symlink(f.link, to); err != nil {
			return fmt.Errorf("linking %q: %w", f.path, err)
		}
		return nil
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
	if err != nil {
		return fmt.Errorf("creating %q: %w", f.path, err)
	}
	var in io.Reader = strings.NewReader(f.content)
	if f.from != "" {
		src, err := os.Open(f.from)
		if err != nil {
			out.Close()
			return fmt.Errorf("opening the source of %q: %w", f.path, err)
		}
		defer src.Close()
		in = src
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", f.path, err)
	}
	if err := os.Chmod(to, f.mode); err != nil {
		return fmt.Errorf("setting the mode of %q: %w", f.path, err)
	}
	return os.Chtimes(to, born(), born())
}

// files is the list of what a node is provisioned with.
func (n *Node) files() []file {
	s, bin := n.Spec, n.Spec.Bin
	id := sha256.Sum256([]byte("gpulab node " + s.Name))
	files := []file{
		{path: "/etc/hostname", mode: 0o644, content: s.Name + "\n"},
		{path: "/etc/machine-id", mode: 0o444, content: hex.EncodeToString(id[:16]) + "\n"},
		// What does not end when a node is shut down (a container's process 1 may ignore
		// the signal) is killed soon.
		{path: "/etc/systemd/system.conf.d/10-stop.conf", mode: 0o644, content: "[Manager]\nDefaultTimeoutStopSec=5s\n"},
		{path: "/etc/hosts", mode: 0o644, content: fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", s.IP, s.Name)},
		{path: "/usr/bin/kubelet", mode: 0o755, from: bin.Kubelet},
		{path: "/usr/bin/containerd-shim-runc-v2", mode: 0o755, from: bin.Shim},
		{path: "/usr/bin/runc", mode: 0o755, from: bin.Runc},
		{path: "/usr/bin/ctr", mode: 0o755, from: bin.Ctr},
		{path: "/etc/cni/net.d/10-gpulab.conflist", mode: 0o644, content: cniConfig(s.PodCIDR)},
		{path: "/etc/kubernetes/kubelet.conf", mode: 0o600, content: string(s.Kubeconfig)},
		{path: "/etc/kubernetes/pki/ca.crt", mode: 0o644, content: string(s.CA)},
		{path: "/etc/kubernetes/pki/kubelet.crt", mode: 0o644, content: string(s.ServingCert)},
		{path: "/etc/kubernetes/pki/kubelet.key", mode: 0o600, content: string(s.ServingKey)},
		{path: "/etc/kubernetes/kubelet-config.yaml", mode: 0o644, content: kubeletConfig(s.PodCIDR, n.socket())},
	}
	if s.Runtime == RuntimeK3s {
		// k3s has run before: what it rendered belongs to the host as it was born.
		files = append(files,
			file{path: k3slike.ConfigFile, mode: 0o644, content: k3slike.First()},
			file{path: "/usr/local/bin/k3s", mode: 0o755, from: bin.K3s},
			file{path: "/var/lib/rancher/k3s/data/current/bin/containerd", mode: 0o755, from: bin.Containerd})
	} else {
		files = append(files,
			file{path: "/usr/bin/containerd", mode: 0o755, from: bin.Containerd},
			file{path: "/etc/containerd/config.toml", mode: 0o644, content: containerdConfig(s.Runtime)},
			file{path: "/etc/containerd/conf.d/.keep", mode: 0o644})
	}
	for _, p := range []string{"ptp", "host-local", "loopback"} {
		files = append(files, file{path: "/opt/cni/bin/" + p, mode: 0o755, from: filepath.Join(bin.CNIDir, p)})
	}
	files = append(files, n.units()...)
	if bin.Gpusim != "" {
		files = append(files,
			file{path: "/usr/lib/gpusim/gpusim", mode: 0o755, from: bin.Gpusim},
			file{path: "/usr/local/sbin/modprobe", link: "/usr/lib/gpusim/gpusim"})
	}
	if s.MachineFile != "" {
		files = append(files, file{path: "/etc/gpusim/machine.yaml", mode: 0o644, from: s.MachineFile})
	}
	return files
}

// containerdConfig is the runtime's configuration as a distribution ships it.
func containerdConfig(runtime string) string {
	if runtime == "containerd-1.6" {
		return `version = 2
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins."io.containerd.grpc.v1.cri"]
  # this machine may not lower OOM scores
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
`
	}
	return `version = 3
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins."io.containerd.cri.v1.runtime"]
  # this machine may not lower OOM scores
  restrict_oom_score_adj = true

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
`
}

// cniConfig connects Pods to their node; the lab's bridge routes between nodes.
func cniConfig(podCIDR string) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "gpulab",
  "plugins": [
    {
      "type": "ptp",
      "mtu": 1500,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`, podCIDR)
}

// kubeletConfig is the kubelet's configuration for a machine whose cgroups are
// version 1 and not ours.
func kubeletConfig(podCIDR, socket string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: /etc/kubernetes/pki/kubelet.crt
tlsPrivateKeyFile: /etc/kubernetes/pki/kubelet.key
containerRuntimeEndpoint: unix://%s
staticPodPath: ""
podCIDR: %q
clusterDomain: cluster.local
clusterDNS: ["10.96.0.10"]
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
localStorageCapacityIsolation: false
maxPods: 110
featureGates:
  KubeletInUserNamespace: true
evictionHard:
  memory.available: "50Mi"
  nodefs.available: "1%%"
  nodefs.inodesFree: "1%%"
  imagefs.available: "1%%"
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
serializeImagePulls: false
`, socket, podCIDR)
}

// socket is where the node's containerd listens.
func (n *Node) socket() string {
	if n.Spec.Runtime == RuntimeK3s {
		return "/run/k3s/containerd/containerd.sock"
	}
	return "/run/containerd/containerd.sock"
}

// runtimeUnit is the unit that runs the node's containerd.
func (n *Node) runtimeUnit() string {
	if n.Spec.Runtime == RuntimeK3s {
		return "k3s.service"
	}
	return "containerd.service"
}

// labelFlag renders the kubelet's --node-labels.
func labelFlag(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var kv []string
	for k, v := range labels {
		kv = append(kv, k+"="+v)
	}
	sort.Strings(kv)
	return " \\\n  --node-labels=" + strings.Join(kv, ",")
}

// gateway is the nodes' default route.
func gateway() string { return netns.Gateway }
