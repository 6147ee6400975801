package image

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// Repository is the registry-like prefix of the lab's own images; nothing is
// ever pulled from it.
const Repository = "gpu-operator.local/"

// The images' short names: what `gpulab image build` takes.
const (
	Operator = "gpu-operator"
	Node     = "gpu-node"
	Workload = "workload"
	Pause    = "pause"
	Driver   = "driver"
)

// payloadDir is where the node image carries what the toolkit installs on hosts.
const payloadDir = "opt/nvidia-container-toolkit/bin"

// Recipe says what an image is made of.
type Recipe struct {
	// Short is the image's name on the command line.
	Short string
	// Programs are the products that it carries.
	Programs []string
}

// Recipes is the table of the lab's images.
func Recipes() []Recipe {
	return []Recipe{
		{Short: Pause, Programs: []string{"pause"}},
		{Short: Workload},
		{Short: Operator, Programs: []string{"gpu-operator"}},
		{Short: Node, Programs: append([]string{"gpu-node"}, payload()...)},
		{Short: Driver, Programs: []string{"gpusim", "simbuild"}},
	}
}

// payload lists what the toolkit installs on hosts.
func payload() []string {
	return []string{"nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook", "nvidia-runtime-shim"}
}

// Find returns the recipe of that name; an unknown one is an error with the
// known ones.
func Find(short string) (Recipe, error) {
	var known []string
	for _, r := range Recipes() {
		if r.Short == short {
			return r, nil
		}
		known = append(known, r.Short)
	}
	return Recipe{}, fmt.Errorf("image %q is not known: the lab makes %s", short, strings.Join(known, ", "))
}

// Inputs are what an image is made from.
type Inputs struct {
	// Programs are paths of built programs by name.
	Programs map[string]string
	// DriverRoot is a driver's file tree on disk and DriverVersion its version
	// (for the driver image only).
	DriverRoot, DriverVersion string
}

// Assemble makes the image that a recipe describes.
func (r Recipe) Assemble(ctx context.Context, in Inputs) (Image, error) {
	if r.Short == Pause {
		return pauseImage(in), nil
	}
	base, err := Base()
	if err != nil {
		return Image{}, err
	}
	img := Image{Names: []string{Repository + r.Short + ":dev"}, Layers: []Tree{base}}
	switch r.Short {
	case Workload:
		shell := Tree{}
		err = shell.AddShell(ctx)
		img.Layers, img.Cmd = append(img.Layers, shell), []string{"/bin/sh"}
	case Operator:
		img.Layers = append(img.Layers, Tree{"usr/bin/gpu-operator": program(in, "gpu-operator")})
		img.Entrypoint = []string{"/usr/bin/gpu-operator"}
	case Node:
		tools := Tree{}
		for _, p := range payload() {
			tools[path.Join(payloadDir, p)] = program(in, p)
		}
		img.Layers = append(img.Layers, tools, Tree{"usr/bin/gpu-node": program(in, "gpu-node")})
		img.Entrypoint = []string{"/usr/bin/gpu-node"}
	case Driver:
		err = driverImage(ctx, &img, in)
	}
	if err != nil {
		return Image{}, fmt.Errorf("making image %q: %w", r.Short, err)
	}
	return img, nil
}

func program(in Inputs, name string) Entry { return Entry{Source: in.Programs[name], Mode: 0o755} }

// pauseImage is the sandbox image, under the names that the two containerd
// releases ask for by default: with it in place no sandbox waits for a pull.
func pauseImage(in Inputs) Image {
	return Image{
		Names:      []string{Repository + "pause:dev", "registry.k8s.io/pause:3.10.2", "registry.k8s.io/pause:3.6"},
		Entrypoint: []string{"/pause"},
		Layers:     []Tree{{"pause": program(in, "pause")}},
	}
}

// driverImage is the stand-in driver container: the driver's files, and a program
// that does with them what the upstream driver container does.
func driverImage(ctx context.Context, img *Image, in Inputs) error {
	img.Names = []string{Repository + "driver:" + in.DriverVersion}
	shell, files := Tree{}, Tree{}
	if err := shell.AddShell(ctx); err != nil {
		return err
	}
	if err := files.AddFolder(in.DriverRoot, "driver"); err != nil {
		return err
	}
	files["usr/local/bin/nvidia-driver"] = program(in, "gpusim")
	img.Layers = append(img.Layers, shell, files)
	img.Entrypoint, img.Cmd = []string{"nvidia-driver"}, []string{"init"}
	img.Env = []string{"DRIVER_VERSION=" + in.DriverVersion}
	return nil
}
