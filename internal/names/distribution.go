package names

import "path"

// Names of Kubernetes distributions that run a containerd of their own.
const (
	DistributionK3s      = "k3s"
	DistributionRKE2     = "rke2"
	DistributionK0s      = "k0s"
	DistributionMicroK8s = "microk8s"
)

// Distribution is a Kubernetes distribution that runs a containerd of its own.
type Distribution struct {
	// Name is one of the constants above.
	Name string
	// Config is the configuration file of its containerd.
	Config string
	// Pattern matches every path under which that file is known; empty: Config alone.
	Pattern string
	// Units are the systemd units in which its containerd runs.
	Units []string
	// Templates are the files, beside Config, from which it is rendered at each start.
	Templates []string
	// Finds says that it looks for NVIDIA's runtime at each start, in FoundRuntimeDirs,
	// and renders a handler for it.
	Finds bool
	// Reloads says that it restarts its containerd by itself when a file in DropInDir changes.
	Reloads bool
	// DropInDir, beside Config, holds the files of users.
	DropInDir string
}

// Distributions returns the table of distributions. Sources: k3s,
// pkg/agent/templates and pkg/agent/containerd/runtimes.go; k0s,
// pkg/component/worker/containerd; MicroK8s, wrappers/run-containerd-with-args.
func Distributions() []Distribution {
	rancher := []string{"config-v3.toml.tmpl", "config.toml.tmpl"}
	return []Distribution{
		{
			Name: DistributionK3s, Config: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
			Units: []string{"k3s.service", "k3s-agent.service"}, Templates: rancher, Finds: true,
		},
		{
			Name: DistributionRKE2, Config: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
			Units: []string{"rke2-server.service", "rke2-agent.service"}, Templates: rancher, Finds: true,
		},
		{
			Name: DistributionK0s, Config: "/etc/k0s/containerd.toml",
			Units: []string{"k0sworker.service", "k0scontroller.service"}, Reloads: true, DropInDir: "containerd.d",
		},
		{
			// Its daemon is given the revision's own directory, to which "current" leads.
			Name: DistributionMicroK8s, Config: "/var/snap/microk8s/current/args/containerd.toml", Pattern: "/var/snap/microk8s/*/args/containerd.toml",
			Units: []string{"snap.microk8s.daemon-containerd.service"}, Templates: []string{"containerd-template.toml"},
		},
	}
}

// DistributionOf returns the distribution that a containerd's configuration file
// belongs to; ok is false for an ordinary containerd.
func DistributionOf(config string) (d Distribution, ok bool) {
	for _, d := range Distributions() {
		if config == d.Config {
			return d, true
		}
		if match, err := path.Match(d.Pattern, config); err == nil && match && d.Pattern != "" {
			return d, true
		}
	}
	return Distribution{}, false
}

// DistributionNamed returns a distribution by its name; an ordinary containerd's
// units for any other.
func DistributionNamed(name string) Distribution {
	for _, d := range Distributions() {
		if d.Name == name {
			return d
		}
	}
	return Distribution{Config: ContainerdConfig, Units: []string{"containerd.service"}}
}

// FoundRuntimeDirs returns the directories in which k3s and RKE2 look for NVIDIA's
// runtime at each start, in order (k3s, pkg/agent/containerd/runtimes.go).
func FoundRuntimeDirs() []string {
	return []string{ToolkitInstallDir + "/" + ToolkitSubdir, "/usr/bin"}
}
