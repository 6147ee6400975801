// Package hostdiff says what changed on a node's host since its birth. A node's
// root is an overlay: its upper layer holds exactly the files that anybody made,
// changed or removed, so comparing the layer at birth with the layer now misses
// nothing.
package hostdiff

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Entry is one file of an upper layer.
type Entry struct {
	// Kind is file, dir, link, device or whiteout (a removed lower file).
	Kind string `json:"kind"`
	// Mode are the permission bits, in octal.
	Mode string `json:"mode"`
	// Owner is uid:gid.
	Owner string `json:"owner"`
	// Content is the sha256 of a file, the target of a link, or a device's numbers.
	Content string `json:"content,omitempty"`
	// Opaque says that a directory hides what the lower layer has below it.
	Opaque bool `json:"opaque,omitempty"`
}

// String is the entry as printed in a difference.
func (e Entry) String() string {
	c := e.Content
	if e.Kind == "file" && len(c) > 12 {
		c = "sha256:" + c[:12]
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Kind, e.Mode, e.Owner, c))
}

// Manifest is an upper layer by path, as the node sees it.
type Manifest map[string]Entry

// Change is one difference.
type Change struct {
	// Action is + (new), ~ (other) or - (gone).
	Action string `json:"action"`
	Path   string `json:"path"`
	// Before and After are the entries; the absent one is nil.
	Before *Entry `json:"before,omitempty"`
	After  *Entry `json:"after,omitempty"`
}

// String is the change as one line.
func (c Change) String() string {
	switch c.Action {
	case "+":
		return fmt.Sprintf("+ %s (%s)", c.Path, c.After)
	case "-":
		return fmt.Sprintf("- %s (%s)", c.Path, c.Before)
	}
	return fmt.Sprintf("~ %s (%s -> %s)", c.Path, c.Before, c.After)
}

// Noise are path prefixes that a booted OS writes by itself, or that are the
// simulated hardware, each with why it is not shown.
func Noise() map[string]string {
	return map[string]string{
		"/var/log":                  "the journal and other logs",
		"/var/lib/systemd":          "systemd's own state (random seed, timers)",
		"/var/tmp":                  "temporary files",
		"/tmp":                      "temporary files; a tmpfs on a running node",
		"/run":                      "a tmpfs on a running node",
		"/var/lib/containerd":       "container images and state, on a disk of its own",
		"/var/lib/kubelet":          "pods, on a disk of its own",
		"/var/lib/cni":              "addresses given to pods",
		"/opt/containerd":           "directory that containerd makes at start",
		"/etc/machine-id":           "written by systemd at first boot",
		"/etc/.updated":             "systemd's stamp",
		"/var/.updated":             "systemd's stamp",
		"/etc/gpusim":               "the description of the simulated hardware",
		"/var/lib/dbus":             "D-Bus machine id",
		"/var/lib/private":          "systemd's dynamic users",
		"/var/cache/private":        "systemd's dynamic users",
		"/usr/libexec/kubernetes":   "directory that the kubelet makes at start",
		"/etc/kubernetes/manifests": "directory that the kubelet makes at start",
		"/var/cache/ldconfig":       "the linker's cache of its own cache",
		"/root/.ssh":                "directory that systemd-tmpfiles makes",
		"/var/cache/man":            "directory that systemd-tmpfiles makes",
		"/dev":                      "a tmpfs on a running node",
	}
}

// noisy reports whether a path is below one of Noise, or one of the directories
// that exist only because of it.
func noisy(path string, noise map[string]string) bool {
	// The state of the simulated GPUs is the one file below the firmware directory
	// that changes by itself.
	if filepath.Base(path) == "gsp_sim.bin" {
		return true
	}
	for prefix := range noise {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

// Snapshot reads the upper layer at dir, noise left out.
func Snapshot(dir string) (Manifest, error) {
	noise := Noise()
	m := Manifest{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // it went while we looked: not there is a fine answer
			}
			return err
		}
		rel := strings.TrimPrefix(path, dir)
		if rel == "" {
			return nil
		}
		if noisy(rel, noise) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		e, err := entry(path, d)
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return fmt.Errorf("reading %q: %w", path, err)
		}
		m[rel] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walking the upper layer %q: %w", dir, err)
	}
	return m, nil
}

// entry describes one file of the layer.
func entry(path string, d fs.DirEntry) (Entry, error) {
	info, err := d.Info()
	if err != nil {
		return Entry{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Entry{}, fmt.Errorf("no owner known")
	}
	e := Entry{Mode: fmt.Sprintf("%04o", st.Mode&0o7777), Owner: fmt.Sprintf("%d:%d", st.Uid, st.Gid)}
	switch {
	case info.IsDir():
		e.Kind, e.Opaque = "dir", opaque(path)
	case info.Mode()&fs.ModeSymlink != 0:
		e.Kind = "link"
		e.Content, err = os.Readlink(path)
	case info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0:
		e.Kind = "whiteout"
	case info.Mode()&fs.ModeDevice != 0:
		e.Kind, e.Content = "device", fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case info.Mode().IsRegular():
		e.Kind = "file"
		e.Content, err = hash(path)
	default:
		e.Kind = "other"
	}
	return e, err
}

// opaque reads the overlay's mark on a directory that was made anew in place of one
// of the lower layer.
func opaque(path string) bool {
	mark := make([]byte, 1)
	n, err := unix.Getxattr(path, "trusted.overlay.opaque", mark)
	return err == nil && n == 1 && mark[0] == 'y'
}

// hash is the sha256 of a file.
func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Lower is the layer that an upper one lies over: the machine's own root.
type Lower interface {
	// Entry describes a file of the layer; false when it has none.
	Entry(path string) (Entry, bool)
	// Below lists all paths below a directory of the layer.
	Below(path string) []string
}

// Diff lists what differs between birth and now, in order of path. A directory
// that is in the upper layer only because something below it was copied up is no
// change: it says nothing new. A directory that was removed and made anew hides
// what the lower layer has below it: each of these files is gone.
func Diff(birth, now Manifest, lower Lower) []Change {
	born := func(path string) (Entry, bool) {
		if e, ok := birth[path]; ok {
			return e, ok
		}
		for at := filepath.Dir(path); at != "/"; at = filepath.Dir(at) {
			if birth[at].Opaque || birth[at].Kind == "whiteout" {
				return Entry{}, false // the node was born without the machine's files there
			}
		}
		return lower.Entry(path)
	}
	after := Manifest{}
	maps.Copy(after, now)
	for path, e := range now {
		if !e.Opaque || birth[path].Opaque {
			continue
		}
		for _, below := range lower.Below(path) {
			if _, made := now[below]; !made {
				after[below] = Entry{Kind: "whiteout"}
			}
		}
		e.Opaque = false // said by what it hides
		after[path] = e
	}
	var changes []Change
	for path, after := range after {
		before, had := born(path)
		switch {
		case had && before == after:
		case after.Kind == "whiteout" && !had:
		case after.Kind == "whiteout":
			changes = append(changes, Change{Action: "-", Path: path, Before: &before})
		case !had:
			changes = append(changes, Change{Action: "+", Path: path, After: &after})
		default:
			changes = append(changes, Change{Action: "~", Path: path, Before: &before, After: &after})
		}
	}
	for path, before := range birth {
		if _, still := now[path]; still || before.Kind == "whiteout" {
			continue
		}
		if _, was := lower.Entry(path); was && before.Kind == "dir" {
			continue
		}
		changes = append(changes, Change{Action: "-", Path: path, Before: &before})
	}
	sort.Slice(changes, func(i, j int) bool { return changes[i].Path < changes[j].Path })
	return changes
}

// Layer is a lower layer at a directory; Hidden names paths of it that nodes do not
// see.
type Layer struct {
	Dir    string
	Hidden func(path string) bool
}

// Entry implements Lower.
func (l Layer) Entry(path string) (Entry, bool) {
	if l.Hidden(path) {
		return Entry{}, false
	}
	full := filepath.Join(l.Dir, path)
	info, err := os.Lstat(full)
	if err != nil {
		return Entry{}, false
	}
	e, err := entry(full, fs.FileInfoToDirEntry(info))
	return e, err == nil
}

// Below implements Lower; what cannot be read is as good as absent.
func (l Layer) Below(path string) []string {
	var out []string
	noise, root := Noise(), filepath.Join(l.Dir, path)
	_ = filepath.WalkDir(root, func(at string, _ fs.DirEntry, err error) error {
		rel := "/" + strings.TrimPrefix(strings.TrimPrefix(at, l.Dir), "/")
		if err == nil && at != root && !noisy(rel, noise) {
			out = append(out, rel)
		}
		return nil
	})
	return out
}
