package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Entry is one path of a layer. Exactly one of Source, Data, Link or Dir says
// what it is.
type Entry struct {
	// Source is a file of the machine to copy (links are followed).
	Source string
	// Data is the content of a small file.
	Data string
	// Link is a symbolic link's target.
	Link string
	// Dir makes a folder.
	Dir bool
	// Mode is the permission bits; 0: those of Source, 0755 for Dir, 0644 for Data.
	Mode fs.FileMode
}

// Tree is a layer's content by path (without a leading slash).
type Tree map[string]Entry

// AddFolder puts the tree below dir on the machine into the layer below at.
func (t Tree) AddFolder(dir, at string) error {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		name := path.Join(at, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			t[name] = Entry{Dir: true}
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			t[name] = Entry{Link: target}
		default:
			t[name] = Entry{Source: p}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the folder %q for an image: %w", dir, err)
	}
	return nil
}

// fixedTime is the modification time of everything in an image.
var fixedTime = time.Unix(1_700_000_000, 0).UTC() //nolint:gochecknoglobals // time.Time cannot be a constant

// Layer packs the tree; missing parent folders are made.
func (t Tree) Layer() (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range t.withParents() {
		if err := t.write(w, name); err != nil {
			return nil, fmt.Errorf("packing %q: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing a layer: %w", err)
	}
	// Not compressed: it travels over no network, and is unpacked at once.
	return static.NewLayer(buf.Bytes(), types.DockerUncompressedLayer), nil
}

// withParents lists the tree's paths and their parents, sorted.
func (t Tree) withParents() []string {
	all := map[string]bool{}
	for name := range t {
		for p := name; p != "." && p != "/"; p = path.Dir(p) {
			all[p] = true
		}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (t Tree) write(w *tar.Writer, name string) error {
	e, ok := t[name]
	if !ok {
		e = Entry{Dir: true}
	}
	h := &tar.Header{Name: name, ModTime: fixedTime, Format: tar.FormatPAX, Mode: int64(e.Mode.Perm())}
	data := []byte(e.Data)
	switch {
	case e.Dir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if e.Mode == 0 {
			h.Mode = 0o755
		}
		if e.Mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
	case e.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Link, 0o777
	case e.Source != "":
		fi, err := os.Stat(e.Source)
		if err != nil {
			return err
		}
		if data, err = os.ReadFile(e.Source); err != nil {
			return err
		}
		if e.Mode == 0 {
			h.Mode = int64(fi.Mode().Perm())
		}
	case e.Mode == 0:
		h.Mode = 0o644
	}
	if h.Typeflag == 0 {
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := w.Write(data)
	return err
}
