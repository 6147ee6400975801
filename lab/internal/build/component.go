package build

import (
	"fmt"
	"strings"
)

// Binary is one program that a component's module makes.
type Binary struct {
	// Name is the file's name in the cache.
	Name string
	// Package is the import path, "." for the module's own main package.
	Package string
}

// Component is one third-party program set of the lab, with the module that
// pins it (lab/components/<Name>).
type Component struct {
	// Name is the folder's name too.
	Name string
	// Version is the upstream version that go.mod pins; it names the cache entry.
	Version string
	// CGO says whether the programs are built with cgo.
	CGO bool
	// Tags and LDFlags are passed to go build as they are.
	Tags, LDFlags string
	// Binaries are built one after the other.
	Binaries []Binary
	// Links are further names of the first binary (a multi-call program).
	Links []string
	// Debs are Debian packages to unpack instead of a module to build.
	Debs []string
}

// stripped leaves symbol tables out: a third of the size.
const stripped = "-s -w"

// kubeVersion must be set by flags, or the programs report a version that
// clients cannot parse.
const kubeVersion = "v1.37.2"

// The components' names, for callers that need one of them.
const (
	Etcd         = "etcd"
	Kube         = "kube"
	Containerd   = "containerd"
	Containerd16 = "containerd-1.6"
	Runc         = "runc"
	CNI          = "cni"
	Kwok         = "kwok"
	Helm         = "helm"
)

// Components is the table of everything that the lab runs and did not write.
func Components() []Component {
	const (
		containerd = "github.com/containerd/containerd/v2/cmd/"
		cni        = "github.com/containernetworking/plugins/plugins/"
		version    = "-X k8s.io/component-base/version."
	)
	return []Component{
		{Name: Etcd, Version: "v3.7.3", LDFlags: stripped, Binaries: []Binary{{"etcd", "."}}},
		{
			Name: Kube, Version: kubeVersion,
			LDFlags:  strings.Join([]string{stripped, version + "gitVersion=" + kubeVersion, version + "gitMajor=1", version + "gitMinor=37"}, " "),
			Binaries: []Binary{{"kube", "."}},
			Links:    []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"},
		},
		{
			Name: Containerd, Version: "v2.4.2", Tags: "no_btrfs",
			LDFlags: stripped + " -X github.com/containerd/containerd/v2/version.Version=v2.4.2",
			Binaries: []Binary{
				{"containerd", containerd + "containerd"},
				{"containerd-shim-runc-v2", containerd + "containerd-shim-runc-v2"},
				{"ctr", containerd + "ctr"},
			},
		},
		{
			Name: Runc, Version: "v1.5.3", CGO: true, Tags: "seccomp",
			LDFlags:  stripped + " -X main.version=1.5.3",
			Binaries: []Binary{{"runc", "github.com/opencontainers/runc"}},
		},
		{
			Name: CNI, Version: "v1.10.0", LDFlags: stripped,
			Binaries: []Binary{{"ptp", cni + "main/ptp"}, {"loopback", cni + "main/loopback"}, {"host-local", cni + "ipam/host-local"}},
		},
		{Name: Kwok, Version: "v0.8.0", LDFlags: stripped, Binaries: []Binary{{"kwok", "sigs.k8s.io/kwok/cmd/kwok"}}},
		{
			Name: Helm, Version: "v3.22.0",
			LDFlags:  stripped + " -X helm.sh/helm/v3/internal/version.version=v3.22.0",
			Binaries: []Binary{{"helm", "helm.sh/helm/v3/cmd/helm"}},
		},
		{
			// The runtime that Debian 12 ships, as an older node has it.
			Name: Containerd16, Version: "debian-12", Debs: []string{"containerd", "runc"},
			Binaries: []Binary{{"containerd", ""}, {"containerd-shim-runc-v2", ""}, {"ctr", ""}, {"runc", ""}},
		},
	}
}

// Find returns the component of that name; an unknown name is an error that
// lists the known ones.
func Find(name string) (Component, error) {
	var known []string
	for _, c := range Components() {
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	return Component{}, fmt.Errorf("component %q is not known: the lab builds %s", name, strings.Join(known, ", "))
}
