package plan

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Kind is the kind of a step; the set is closed.
type Kind string

// The kinds of steps.
const (
	// KindFile is a whole file that we own.
	KindFile Kind = "file"
	// KindEdit is a file of somebody else in which we own a few bytes.
	KindEdit Kind = "edit"
	// KindSymlink is a symbolic link.
	KindSymlink Kind = "symlink"
	// KindDirectory is a directory that must exist.
	KindDirectory Kind = "directory"
	// KindDevice is a character device node.
	KindDevice Kind = "device"
	// KindModule is a kernel module that must be loaded.
	KindModule Kind = "module"
	// KindUnit is a systemd unit that must be active.
	KindUnit Kind = "unit"
	// KindAbsent is a path that must not exist.
	KindAbsent Kind = "absent"
	// KindRestart restarts a unit because of changes to other paths.
	KindRestart Kind = "restart"
)

// Source is content too large to hold: a file of our own image, copied.
type Source struct {
	// Name is the file's name in the payload.
	Name string `json:"name"`
	// Hash is the sha256 of its bytes, in hexadecimal.
	Hash string `json:"hash"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

// Edit is a change to a file of somebody else: a name and arguments, which an
// Editor turns into a function on bytes. It is data so that the ledger can hold it.
type Edit struct {
	// Name chooses the Editor.
	Name string `json:"name"`
	// Args are the editor's arguments.
	Args map[string]string `json:"args,omitempty"`
}

// Editor applies and reverts edits of one name. Both functions are pure: exists
// says whether the file is there, and the boolean result whether it must be.
// Revert(Apply(x)) is x to the byte; Revert leaves alone what it does not find.
type Editor interface {
	// Apply returns the file with the edit made; equal bytes mean nothing to do.
	Apply(args map[string]string, prev []byte, exists bool) ([]byte, error)
	// Revert returns cur without the edit, and whether the file must still exist.
	Revert(args map[string]string, cur []byte) (next []byte, exists bool, err error)
}

// Editors are the editors by name.
type Editors map[string]Editor

// Step is one thing that must be true of the host.
type Step struct {
	// Kind says which of the fields count.
	Kind Kind
	// Path is absolute, as the host sees it; the module's or unit's name for those kinds.
	Path string
	// Content is the whole content of a KindFile, unless Source is set.
	Content []byte
	// Source is the content of a large KindFile.
	Source *Source
	// Edit is the change of a KindEdit.
	Edit *Edit
	// Mode holds the permission bits of files, directories and devices; 0 keeps what
	// is there (0644 and 0755 when new).
	Mode fs.FileMode
	// Target is the target of a KindSymlink.
	Target string
	// Major and Minor are the numbers of a KindDevice.
	Major, Minor uint32
	// Because are the paths whose change makes a KindRestart necessary.
	Because []string
	// Group names the operand that wants it (container-toolkit, driver).
	Group string
	// Why says what it is for, in words.
	Why string
	// Implied marks parent directories that nobody asked for by name.
	Implied bool
}

// Observable says whether the step is about a path of the file system.
func (s Step) Observable() bool {
	return s.Kind != KindModule && s.Kind != KindUnit && s.Kind != KindRestart
}

// WithParents returns the steps with a directory step before each path whose
// parents are not yet named, so that directories made on the way are known to
// the ledger and are removed again by an undo.
func WithParents(steps []Step) []Step {
	seen := map[string]bool{"/": true}
	for _, s := range steps {
		if s.Kind == KindDirectory {
			seen[s.Path] = true
		}
	}
	emitted := map[string]bool{"/": true}
	var out []Step
	for _, s := range steps {
		if s.Observable() && s.Kind != KindAbsent {
			for _, dir := range parents(s.Path) {
				if !emitted[dir] && !seen[dir] {
					out = append(out, Step{Kind: KindDirectory, Path: dir, Group: s.Group, Why: "holds " + s.Path, Implied: true})
					emitted[dir] = true
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// parents returns the directories above p, outermost first, without "/".
func parents(p string) []string {
	var out []string
	for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// Keys returns what has to be observed to diff the steps and to undo the ledger:
// every path once, in order, and whether a final symbolic link is followed.
func Keys(steps []Step, l Ledger) []Key {
	var out []Key
	seen := map[string]bool{}
	add := func(k Key) {
		if !seen[k.Path] {
			seen[k.Path] = true
			out = append(out, k)
		}
	}
	for _, s := range steps {
		if s.Observable() {
			add(Key{Path: s.Path, Follow: s.Kind == KindEdit || s.Kind == KindDirectory, Whole: s.Kind == KindEdit})
		}
	}
	for _, e := range l.Entries {
		if e.Kind.onDisk() {
			add(Key{Path: e.Path, Whole: e.Kind == KindEdit})
		}
	}
	return out
}

// onDisk says whether the kind leaves something in the file system.
func (k Kind) onDisk() bool { return k != KindModule && k != KindUnit && k != KindRestart }

// Key is one path to observe.
type Key struct {
	// Path is absolute.
	Path string
	// Follow resolves a final symbolic link (within the host's root).
	Follow bool
	// Whole reads the content whatever its size.
	Whole bool
}

// clean says whether p is an absolute path without dots and double slashes.
func clean(p string) bool { return strings.HasPrefix(p, "/") && path.Clean(p) == p }
