package names

import "testing"

func TestDistributionOf(t *testing.T) {
	for config, want := range map[string]string{
		"/var/lib/rancher/k3s/agent/etc/containerd/config.toml":  DistributionK3s,
		"/var/lib/rancher/rke2/agent/etc/containerd/config.toml": DistributionRKE2,
		"/etc/k0s/containerd.toml":                               DistributionK0s,
		"/var/snap/microk8s/current/args/containerd.toml":        DistributionMicroK8s,
		"/var/snap/microk8s/8511/args/containerd.toml":           DistributionMicroK8s,
		"/var/snap/microk8s/8511/x/args/containerd.toml":         "",
		"/etc/containerd/config.toml":                            "",
		"":                                                       "",
	} {
		if d, ok := DistributionOf(config); d.Name != want || ok != (want != "") {
			t.Errorf("%q belongs to %q (%v), want %q", config, d.Name, ok, want)
		}
	}
	if d := DistributionNamed(""); d.Config != ContainerdConfig || d.Units[0] != "containerd.service" {
		t.Errorf("an ordinary containerd is %+v", d)
	}
}
