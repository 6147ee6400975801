package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gpu-operator/lab/internal/image"
)

// imagesDir is where built images lie.
func (l *Lab) imagesDir() string { return filepath.Join(l.Cache, "images") }

// BuildImages builds images by their short names; none means all. version is the
// driver image's.
func (l *Lab) BuildImages(ctx context.Context, version string, shorts ...string) ([]image.Built, error) {
	if len(shorts) == 0 {
		for _, r := range image.Recipes() {
			shorts = append(shorts, r.Short)
		}
	}
	var out []image.Built
	for _, short := range shorts {
		recipe, err := image.Find(short)
		if err != nil {
			return nil, err
		}
		in := image.Inputs{Programs: map[string]string{}, DriverVersion: version}
		for _, p := range recipe.Programs {
			if in.Programs[p], err = l.builder.BuildProduct(ctx, p); err != nil {
				return nil, fmt.Errorf("making image %q: %w", short, err)
			}
		}
		if short == image.Driver {
			if in.DriverRoot, err = l.DriverRoot(ctx, version); err != nil {
				return nil, err
			}
		}
		img, err := recipe.Assemble(ctx, in)
		if err != nil {
			return nil, err
		}
		built, err := img.Write(l.imagesDir())
		if err != nil {
			return nil, err
		}
		const mib = 1 << 20
		l.Step("image %s (%d MiB, %s)", built.Names[0], built.Size/mib, built.Digest[:19])
		out = append(out, built)
	}
	return out, nil
}

// DriverRoot returns the file tree of a stand-in driver of that version, making
// it on first use.
func (l *Lab) DriverRoot(ctx context.Context, version string) (string, error) {
	tool, err := l.builder.BuildProduct(ctx, "simbuild")
	if err != nil {
		return "", fmt.Errorf("making the driver's files: %w", err)
	}
	dir := filepath.Join(l.Cache, "driver", version)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("making the driver's files: %w", err)
	}
	if err := l.simulator(ctx, tool, "driver", "--version", version, "--out", dir); err != nil {
		return "", fmt.Errorf("making the files of driver %s: %w", version, err)
	}
	return dir, nil
}
