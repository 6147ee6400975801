package toolkit

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/containerd"
	"gpu-operator/internal/nodeconf/toolkit"
)

// configLimit bounds the size in bytes of a configuration file that is read.
const configLimit = 8 << 20

// Daemon is what a running container runtime told about itself; zero offline.
type Daemon struct {
	// Version is the runtime's version without its name (2.4.2).
	Version string
	// Dump is its print of the effective configuration.
	Dump []byte
}

// Gather reads what containerd.Decide needs from the host.
func Gather(root *host.Root, o toolkit.Options, d Daemon) (containerd.Facts, error) {
	f := containerd.Facts{Version: strings.TrimPrefix(d.Version, "containerd://"), Dump: d.Dump}
	var err error
	file, distribution := configOf(root, o.RuntimeConfig)
	f.Distribution = distribution
	if f.Root, err = readConfig(root, file); err != nil {
		return f, err
	}
	for _, p := range containerd.Templates(f.Distribution, f.Root.Path) {
		t, err := readConfig(root, p)
		if err != nil {
			return f, err
		}
		f.Templates = append(f.Templates, t)
	}
	if f.Imported, err = readImports(root, f.Root); err != nil {
		return f, err
	}
	if f.KubeletCgroupDriver, err = kubeletCgroupDriver(root); err != nil {
		return f, err
	}
	return f, nil
}

// configOf returns the runtime's configuration file and the distribution that it
// belongs to: the file that is named, and where there is none that of a distribution.
func configOf(root *host.Root, named string) (file, distribution string) {
	if d, ok := names.DistributionOf(named); ok {
		if named != d.Config && sameFile(root, named, d.Config) {
			return d.Config, d.Name // the name that stays when the distribution is updated
		}
		return named, d.Name
	}
	if root.Exists(named) {
		return named, ""
	}
	for _, d := range names.Distributions() {
		if root.Exists(d.Config) || d.Finds && root.Exists(path.Dir(d.Config)) {
			return d.Config, d.Name
		}
	}
	return named, ""
}

// sameFile says whether two paths of the host lead to the same place.
func sameFile(root *host.Root, a, b string) bool {
	realA, errA := root.Resolve(a)
	realB, errB := root.Resolve(b)
	return errA == nil && errB == nil && realA == realB
}

// readConfig reads one configuration file; a missing one is a fact.
func readConfig(root *host.Root, p string) (containerd.File, error) {
	data, err := root.ReadFile(p, configLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return containerd.File{Path: p}, nil
	}
	if err != nil {
		return containerd.File{}, fmt.Errorf("reading runtime configuration %q: %w", p, err)
	}
	return containerd.File{Path: p, Data: data, Exists: true}, nil
}

// readImports reads the files that are imported, breadth first as containerd
// loads them, each once. Files that are not valid TOML are containerd's decision
// to refuse: they are passed on and refused there with line and column.
func readImports(root *host.Root, first containerd.File) ([]containerd.File, error) {
	var out []containerd.File
	loaded := map[string]bool{first.Path: true}
	pending := []containerd.File{first}
	for len(pending) > 0 {
		file := pending[0]
		pending = pending[1:]
		patterns, err := containerd.Imports(file.Path, file.Data)
		if err != nil {
			continue
		}
		for _, pattern := range patterns {
			paths, err := root.Glob(path.Clean(pattern))
			if err != nil {
				return nil, fmt.Errorf("resolving import %q of %q: %w", pattern, file.Path, err)
			}
			for _, p := range paths {
				if loaded[p] {
					continue
				}
				loaded[p] = true
				imported, err := readConfig(root, p)
				if err != nil {
					return nil, err
				}
				out = append(out, imported)
				pending = append(pending, imported)
			}
		}
	}
	return out, nil
}

// kubeletCgroupDriver reads cgroupDriver from the kubelet's configuration; empty
// when there is no such file.
func kubeletCgroupDriver(root *host.Root) (string, error) {
	file := path.Join(names.KubeletRoot, "config.yaml")
	data, err := root.ReadFile(file, configLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading kubelet configuration %q: %w", file, err)
	}
	var config struct {
		CgroupDriver string `json:"cgroupDriver"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("reading kubelet configuration %q: %w", file, err)
	}
	return config.CgroupDriver, nil
}
