package build

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Product is a program that is built from the source tree's own root module at
// every `up`: the Go tool's cache makes an unchanged one cheap.
type Product struct {
	// Name is the file's name, Package what to build, Module the folder of the
	// module to build it in ("" for the root).
	Name, Package, Module string
	// CGO says whether it is linked with the C library.
	CGO bool
}

// lazyBinding lets a cgo program start whose NVML symbols are only found when
// the library is opened at run time.
const lazyBinding = "-extldflags=-Wl,-z,lazy"

// Products is the table of the product's and the simulation's programs.
func Products() []Product {
	const nvidia = "github.com/NVIDIA/nvidia-container-toolkit/cmd/"
	return []Product{
		{Name: "gpu-operator", Package: "./cmd/gpu-operator"},
		{Name: "gpu-node", Package: "./cmd/gpu-node", CGO: true},
		{Name: "nvidia-runtime-shim", Package: "./cmd/nvidia-runtime-shim"},
		{Name: "nvidia-container-runtime", Package: nvidia + "nvidia-container-runtime", CGO: true},
		{Name: "nvidia-ctk", Package: nvidia + "nvidia-ctk", CGO: true},
		{Name: "nvidia-cdi-hook", Package: nvidia + "nvidia-cdi-hook", CGO: true},
		{Name: "gpusim", Package: "./sim/cmd/gpusim"},
		{Name: "simbuild", Package: "./sim/cmd/simbuild"},
		{Name: "pause", Package: "./cmd/pause", Module: "lab"},
		{Name: "k3slike", Package: "./cmd/k3slike", Module: "lab"},
	}
}

// BuildProduct builds one of Products and returns its path in the cache.
func (b *Builder) BuildProduct(ctx context.Context, name string) (string, error) {
	for _, p := range Products() {
		if p.Name == name {
			return b.buildProduct(ctx, p)
		}
	}
	return "", fmt.Errorf("program %q is not in the table of products", name)
}

func (b *Builder) buildProduct(ctx context.Context, p Product) (string, error) {
	dir := filepath.Join(b.Cache, "product")
	path := filepath.Join(dir, p.Name)
	unlock, err := lock(filepath.Join(dir, p.Name+".lock"))
	if err != nil {
		return "", fmt.Errorf("building %s: %w", p.Name, err)
	}
	defer unlock()
	flags := stripped
	if p.CGO {
		flags += " " + lazyBinding
	}
	out := &tail{}
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-ldflags", flags, "-o", path, p.Package)
	cmd.Dir = filepath.Join(b.Repo, p.Module)
	cmd.Env = GoEnv(p.CGO)
	cmd.Stdout, cmd.Stderr = out, out
	if err := b.Progress.During("building "+p.Name, out.packages, cmd.Run); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", p.Name, err, out)
	}
	return path, nil
}
