package image

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is an image to make.
type Image struct {
	// Names are its references (repository:tag); a last one, by content, is added.
	Names []string
	// Entrypoint, Cmd and Env are the container's defaults.
	Entrypoint, Cmd, Env []string
	// Layers are packed in this order, upon nothing.
	Layers []Tree
}

// Built is an image on disk.
type Built struct {
	// Names are its references, the last one by content.
	Names []string `json:"names"`
	// Digest is the image's configuration digest: equal content, equal digest.
	Digest string `json:"digest"`
	// Tar is the archive for `ctr images import`.
	Tar string `json:"tar"`
	// Size is the archive's size in bytes.
	Size int64 `json:"size"`
}

// Write packs the image into dir as <short name>.tar with a description beside it.
// An archive with the same content is left alone.
func (i Image) Write(dir string) (Built, error) {
	img, err := i.assemble()
	if err != nil {
		return Built{}, fmt.Errorf("making image %q: %w", i.Names[0], err)
	}
	digest, err := img.ConfigName()
	if err != nil {
		return Built{}, fmt.Errorf("hashing image %q: %w", i.Names[0], err)
	}
	repository, tag, _ := cutLast(i.Names[0], ":")
	content := repository + ":" + tag + "-" + digest.Hex[:12]
	short := repository[strings.LastIndex(repository, "/")+1:] + "-" + tag
	b := Built{Names: append(append([]string{}, i.Names...), content), Digest: digest.String(), Tar: filepath.Join(dir, short+".tar")}
	if old, err := Read(dir, short); err == nil && old.Digest == b.Digest && strings.Join(old.Names, " ") == strings.Join(b.Names, " ") {
		return old, nil
	}
	refs := map[name.Tag]v1.Image{}
	for _, n := range b.Names {
		ref, err := name.NewTag(n)
		if err != nil {
			return Built{}, fmt.Errorf("naming image %q: %w", n, err)
		}
		refs[ref] = img
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Built{}, fmt.Errorf("creating the images' folder: %w", err)
	}
	if err := tarball.MultiWriteToFile(b.Tar+".new", refs); err != nil {
		return Built{}, fmt.Errorf("writing image %q: %w", i.Names[0], err)
	}
	if err := os.Rename(b.Tar+".new", b.Tar); err != nil {
		return Built{}, fmt.Errorf("putting image %q in place: %w", i.Names[0], err)
	}
	fi, err := os.Stat(b.Tar)
	if err != nil {
		return Built{}, fmt.Errorf("looking at image %q: %w", i.Names[0], err)
	}
	b.Size = fi.Size()
	return b, writeDescription(b)
}

// Read returns the description of an image that was written to dir under its
// short name (as in "gpu-node-dev").
func Read(dir, short string) (Built, error) {
	raw, err := os.ReadFile(filepath.Join(dir, short+".json"))
	if err != nil {
		return Built{}, fmt.Errorf("reading the description of image %q: %w", short, err)
	}
	var b Built
	if err := json.Unmarshal(raw, &b); err != nil {
		return Built{}, fmt.Errorf("parsing the description of image %q: %w", short, err)
	}
	if _, err := os.Stat(b.Tar); err != nil {
		return Built{}, fmt.Errorf("looking for the archive of image %q: %w", short, err)
	}
	return b, nil
}

// writeDescription is written after the archive: one without a description is
// written again.
func writeDescription(b Built) error {
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("describing image %q: %w", b.Names[0], err)
	}
	path := strings.TrimSuffix(b.Tar, ".tar") + ".json"
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("describing image %q: %w", b.Names[0], err)
	}
	return nil
}

// assemble makes the image in memory.
func (i Image) assemble() (v1.Image, error) {
	img := v1.Image(empty.Image)
	for _, tree := range i.Layers {
		layer, err := tree.Layer()
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, fmt.Errorf("adding a layer: %w", err)
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", "amd64"
	file.Created = v1.Time{Time: fixedTime}
	env := append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, i.Env...)
	file.Config = v1.Config{Entrypoint: i.Entrypoint, Cmd: i.Cmd, Env: env, WorkingDir: "/"}
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("setting the configuration: %w", err)
	}
	return img, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
