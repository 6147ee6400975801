package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpu-operator/internal/plan"
)

// wholeLimit bounds how much of one file is held in memory when its content was asked for.
const wholeLimit = 8 << 20

// Observe looks at the keys. What cannot be looked at is an error; what is not
// there is a state.
func (r *Root) Observe(keys []plan.Key) (plan.Observed, error) {
	out := plan.Observed{Paths: map[string]plan.State{}, Modules: map[string]bool{}, Units: map[string]bool{}}
	for _, k := range keys {
		s, err := r.state(k)
		if err != nil {
			return out, fmt.Errorf("looking at host path %q: %w", k.Path, err)
		}
		out.Paths[k.Path] = s
		if s.RealPath != "" {
			real := s
			real.RealPath = ""
			out.Paths[s.RealPath] = real
		}
	}
	return out, nil
}

// state looks at one key.
func (r *Root) state(k plan.Key) (plan.State, error) {
	at, err := r.locate(k.Path, k.Follow)
	if missing(err) {
		return plan.State{Type: plan.TypeAbsent}, nil
	}
	if err != nil {
		return plan.State{}, err
	}
	defer at.close()
	s, err := look(at, k.Whole)
	if err != nil {
		return s, err
	}
	if at.real != k.Path && k.Follow && s.Type != plan.TypeDirectory {
		if resolved, err := r.locate(k.Path, false); err == nil {
			if resolved.real != at.real {
				s.RealPath = at.real
			}
			resolved.close()
		}
	}
	return s, nil
}

// missing says that an error means "nothing there".
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// look returns the state of a place.
func look(at place, whole bool) (plan.State, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if missing(err) {
			return plan.State{Type: plan.TypeAbsent}, nil
		}
		return plan.State{}, err
	}
	s := plan.State{Mode: modeOf(st.Mode), UID: st.Uid, GID: st.Gid, MTime: st.Mtim.Nano()}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return lookFile(at, s, whole)
	case unix.S_IFDIR:
		return lookDir(at, s)
	case unix.S_IFLNK:
		target, err := readlinkat(at.dir, at.name)
		s.Type, s.Target = plan.TypeSymlink, target
		return s, err
	case unix.S_IFCHR:
		s.Type = plan.TypeDevice
		s.Major, s.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
		return s, nil
	}
	s.Type = plan.TypeOther
	return s, nil
}

// lookFile hashes a file; its content is kept when it is small or asked for.
func lookFile(at place, s plan.State, whole bool) (plan.State, error) {
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, err
	}
	f := os.NewFile(uintptr(fd), at.name)
	defer f.Close()
	s.Type = plan.TypeFile
	limit := int64(plan.InlineLimit)
	if whole {
		limit = wholeLimit
	}
	head, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return s, err
	}
	sum := sha256.New()
	sum.Write(head)
	rest, err := io.Copy(sum, f)
	if err != nil {
		return s, err
	}
	s.Size = int64(len(head)) + rest
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	if s.Size <= limit {
		s.Content = head
	} else if whole {
		return s, fmt.Errorf("file of %d bytes is too large to edit", s.Size)
	}
	return s, nil
}

// lookDir counts a directory's names.
func lookDir(at place, s plan.State) (plan.State, error) {
	s.Type = plan.TypeDirectory
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, err
	}
	f := os.NewFile(uintptr(fd), at.name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	s.Entries = len(names)
	return s, err
}

// modeOf turns the kernel's mode bits into Go's.
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// bitsOf turns Go's mode bits into the kernel's.
func bitsOf(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// sortEntries orders directory entries by name.
func sortEntries(names []fs.DirEntry) {
	slices.SortFunc(names, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}
