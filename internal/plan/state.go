package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// Type is what a path is.
type Type string

// The types of paths.
const (
	TypeAbsent    Type = "absent"
	TypeFile      Type = "file"
	TypeDirectory Type = "directory"
	TypeSymlink   Type = "symlink"
	TypeDevice    Type = "device"
	// TypeOther is anything else (sockets, pipes, block devices): never touched.
	TypeOther Type = "other"
)

// State is what was seen at a path, or what shall be there.
type State struct {
	// Type is what the path is.
	Type Type `json:"type"`
	// Mode holds the permission bits (with setuid, setgid and sticky).
	Mode fs.FileMode `json:"mode,omitempty"`
	// UID and GID are the owner; they count only when a prior state is restored.
	UID uint32 `json:"uid,omitempty"`
	GID uint32 `json:"gid,omitempty"`
	// MTime is the modification time in nanoseconds since 1970; restored, never compared.
	MTime int64 `json:"mtime,omitempty"`
	// Hash is the sha256 of a file's content, in hexadecimal.
	Hash string `json:"hash,omitempty"`
	// Size of a file in bytes.
	Size int64 `json:"size,omitempty"`
	// Content of a file, when it is small or was asked for (nil: not read).
	Content []byte `json:"content,omitempty"`
	// Blob says that Content lies in the ledger's blob directory under Hash.
	Blob bool `json:"blob,omitempty"`
	// Target of a symbolic link.
	Target string `json:"target,omitempty"`
	// Major and Minor of a device.
	Major uint32 `json:"major,omitempty"`
	Minor uint32 `json:"minor,omitempty"`
	// Entries is the number of names in a directory.
	Entries int `json:"entries,omitempty"`
	// RealPath is where a followed symbolic link leads, when it is another path.
	RealPath string `json:"realPath,omitempty"`
}

// Observed are the states by path, and what is known of modules and units.
type Observed struct {
	// Paths by absolute path; a path that is missing here was not looked at.
	Paths map[string]State
	// Modules that are loaded.
	Modules map[string]bool
	// Units that are active.
	Units map[string]bool
}

// HashBytes returns the sha256 of b in hexadecimal.
func HashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// FileState returns the state of a file with that content.
func FileState(content []byte, mode fs.FileMode) State {
	return State{Type: TypeFile, Mode: mode, Hash: HashBytes(content), Size: int64(len(content)), Content: content}
}

// Same says whether two states are the same to a reader of the path: type, mode,
// content, link target, device numbers. Owner and times do not count.
func (s State) Same(o State) bool {
	if s.Type != o.Type {
		return false
	}
	switch s.Type {
	case TypeFile:
		return s.Hash == o.Hash && s.Mode == o.Mode
	case TypeDirectory:
		return s.Mode == o.Mode
	case TypeSymlink:
		return s.Target == o.Target
	case TypeDevice:
		return s.Major == o.Major && s.Minor == o.Minor && s.Mode == o.Mode
	case TypeAbsent:
		return true
	case TypeOther:
		return false
	}
	return false
}

// String says the state in a few words.
func (s State) String() string {
	switch s.Type {
	case TypeFile:
		return fmt.Sprintf("file %04o sha256:%.12s %d bytes", s.Mode, s.Hash, s.Size)
	case TypeDirectory:
		return fmt.Sprintf("directory %04o", s.Mode)
	case TypeSymlink:
		return "symlink to " + s.Target
	case TypeDevice:
		return fmt.Sprintf("device %d:%d %04o", s.Major, s.Minor, s.Mode)
	case TypeAbsent, TypeOther:
		return string(s.Type)
	}
	return string(s.Type)
}
