package node

import (
	"fmt"

	"gpu-operator/lab/internal/netns"
)

// unit is one systemd unit and the target that wants it ("" = started by the lab).
type unit struct {
	name, wantedBy, content string
}

// units are the unit files of the node, and what it must not inherit.
func (n *Node) units() []file {
	units := []unit{
		{"gpulab-prepare.service", "sysinit.target", prepareUnit},
		{"gpulab-network.service", "multi-user.target", networkUnit(n.Spec.IP)},
		{n.runtimeUnit(), "multi-user.target", n.containerdUnit()},
		{"kubelet.service", "", kubeletUnit(n.Spec, n.runtimeUnit())},
	}
	if n.Spec.Bin.Gpusim != "" {
		units = append(units, unit{"gpusim-boot.service", "sysinit.target", gpusimBootUnit})
		if n.Spec.Driver == "host" && n.Spec.MachineFile != "" {
			units = append(units, unit{"gpusim-driver.service", "multi-user.target", gpusimDriverUnit})
		}
	}
	const dir = "/etc/systemd/system/"
	var files []file
	for _, u := range units {
		files = append(files, file{path: dir + u.name, mode: 0o644, content: u.content})
		if u.wantedBy != "" {
			files = append(files, file{path: dir + u.wantedBy + ".wants/" + u.name, link: "../" + u.name})
		}
	}
	// Units that Debian's packages bring and that a node of the lab does not need.
	for _, m := range []string{
		"getty.target", "systemd-logind.service", "systemd-pstore.service", "systemd-timesyncd.service",
		"systemd-networkd.service", "systemd-resolved.service", "docker.service", "docker.socket", "cron.service",
		"postgresql.service", "apt-daily.timer", "apt-daily-upgrade.timer", "systemd-tmpfiles-clean.timer",
		"proc-sys-fs-binfmt_misc.automount", "var-lib-machines.mount",
	} {
		files = append(files, file{path: dir + m, link: "/dev/null"})
	}
	return files
}

// prepareUnit mends what nspawn leaves read-only on a machine with cgroups of
// version 1, and gives the kubelet the kernel log that it insists on. The kernel
// settings that a kubelet changes at start belong to the machine: the node sees
// files in their place which already hold what the kubelet wants.
const prepareUnit = `[Unit]
Description=Make cgroups writable for the container runtime
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'for kv in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do f=/run/gpulab-sysctl/$${kv%%=*}; mkdir -p $${f%%/*}; echo $${kv##*=} > $$f; mount --bind $$f /proc/sys/$${kv%%=*}; done'
ExecStart=/bin/sh -c 'mount -o remount,bind,rw /sys/fs/cgroup; for d in /sys/fs/cgroup/*; do mount -o remount,bind,rw "$d" 2>/dev/null || true; done; mount --make-rshared /; [ -e /dev/kmsg ] || mknod /dev/kmsg c 1 11'
`

// containerdUnit is the unit of the node's containerd.
func (n *Node) containerdUnit() string {
	if n.Spec.Runtime == RuntimeK3s {
		return k3sUnit
	}
	return packagedUnit
}

// k3sUnit is the unit as k3s's installer writes it, as far as containerd is concerned.
const k3sUnit = `[Unit]
Description=Lightweight Kubernetes (the part of it that runs containerd)
After=network.target gpulab-network.service dbus.service

[Service]
ExecStart=/usr/local/bin/k3s server
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`

// packagedUnit is the unit as containerd's own packages ship it.
const packagedUnit = `[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target gpulab-network.service dbus.service

[Service]
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`

// gpusimBootUnit renders the simulated hardware before anything looks for it.
const gpusimBootUnit = `[Unit]
Description=Simulated GPU hardware
DefaultDependencies=no
After=local-fs.target gpulab-prepare.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/gpusim/gpusim boot
`

// gpusimDriverUnit loads the driver of the OS image at boot, as
// systemd-modules-load does for a real one.
const gpusimDriverUnit = `[Unit]
Description=Load the GPU driver of the OS image
After=gpusim-boot.service
Before=containerd.service k3s.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/gpusim/gpusim modprobe nvidia --driver-root /

[Install]
WantedBy=multi-user.target
`

// networkUnit gives the node its address.
func networkUnit(ip string) string {
	return fmt.Sprintf(`[Unit]
Description=Network of the node
DefaultDependencies=no
Before=network.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'ip link set lo up; ip link set host0 up; ip addr replace %s/%d dev host0; ip route replace default via %s; echo 1 > /proc/sys/net/ipv4/ip_forward'

[Install]
WantedBy=multi-user.target
`, ip, netns.Mask, gateway())
}

// kubeletUnit is the kubelet as kubeadm's packages start it. It has no [Install]
// section: the lab starts it once images are there.
func kubeletUnit(s Spec, runtime string) string {
	return fmt.Sprintf(`[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
After=%s
Wants=%s
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/kubelet \
  --kubeconfig=/etc/kubernetes/kubelet.conf \
  --config=/etc/kubernetes/kubelet-config.yaml \
  --hostname-override=%s \
  --node-ip=%s%s
Restart=always
RestartSec=2
`, runtime, runtime, s.Name, s.IP, labelFlag(s.Labels))
}
