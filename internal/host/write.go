package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/plan"
)

// tmpSuffix ends the names of half-written files; their names are fixed, so that
// the next run finds and removes them.
const tmpSuffix = ".gpu-operator.tmp"

// tmpName is the name under which a file is written before it takes its place.
func tmpName(name string) string { return "." + name + tmpSuffix }

// content is what goes into a file.
type content struct {
	r    io.Reader
	hash string // expected sha256; empty: not checked
}

func bytesContent(b []byte) content { return content{r: bytes.NewReader(b)} }

// meta is what else is set on a new file; owner and mtime only when restored.
type meta struct {
	mode    fs.FileMode
	restore *plan.State
}

// write makes c.To true at c.Path.
func (s *Session) write(c plan.Change) error {
	m := meta{mode: c.To.Mode}
	if c.Drop {
		m.restore = &c.To
	}
	switch c.To.Type {
	case plan.TypeAbsent:
		return s.remove(c.Path, c.From.Type == plan.TypeDirectory)
	case plan.TypeFile:
		body, done, err := s.contentOf(c)
		if err != nil {
			return err
		}
		defer done()
		return s.replace(c.Path, body, m)
	case plan.TypeSymlink:
		return s.replaceBy(c.Path, func(dir int, tmp string) error { return unix.Symlinkat(c.To.Target, dir, tmp) })
	case plan.TypeDevice:
		return s.replaceBy(c.Path, func(dir int, tmp string) error {
			dev := unix.Mkdev(c.To.Major, c.To.Minor)
			if err := unix.Mknodat(dir, tmp, unix.S_IFCHR|bitsOf(m.mode), int(dev)); err != nil {
				return err
			}
			return unix.Fchmodat(dir, tmp, bitsOf(m.mode), 0)
		})
	case plan.TypeDirectory:
		return s.directory(c.Path, m)
	case plan.TypeOther:
	}
	return fmt.Errorf("a %q cannot be made", c.To.Type)
}

// contentOf opens what a change writes into a file.
func (s *Session) contentOf(c plan.Change) (content, func(), error) {
	switch {
	case c.Source != nil && !c.Drop:
		if s.payload == nil {
			return content{}, nil, fmt.Errorf("no payload to take %q from", c.Source.Name)
		}
		f, err := s.payload.OpenPayload(c.Source.Name)
		if err != nil {
			return content{}, nil, &fault.Fault{Reason: fault.ReasonPayloadMissing, Where: c.Source.Name, Message: "the image lacks a file to install", Err: err}
		}
		return content{r: f, hash: c.To.Hash}, func() { _ = f.Close() }, nil
	case c.To.Blob:
		f, err := s.root.Open(blobPath(c.To.Hash))
		if err != nil {
			return content{}, nil, fmt.Errorf("opening saved content: %w", err)
		}
		return content{r: f, hash: c.To.Hash}, func() { _ = f.Close() }, nil
	}
	return content{r: bytes.NewReader(c.To.Content), hash: c.To.Hash}, func() {}, nil
}

// replace writes a file beside its place, makes it durable and renames it into place.
func (s *Session) replace(p string, body content, m meta) error {
	return s.replaceBy(p, func(dir int, tmp string) error {
		fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), tmp)
		err = fill(f, body, m)
		return errors.Join(err, f.Close())
	})
}

// fill writes content, mode and owner of a new file and syncs it.
func fill(f *os.File, body content, m meta) error {
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum), body.r); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); body.hash != "" && got != body.hash {
		return fmt.Errorf("content has sha256 %.12s, want %.12s: it changed while being copied", got, body.hash)
	}
	if m.restore != nil {
		if err := chown(f, *m.restore); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(int(f.Fd()), bitsOf(m.mode)); err != nil {
		return err
	}
	if m.restore != nil && m.restore.MTime != 0 {
		t := unix.NsecToTimespec(m.restore.MTime)
		tv := []unix.Timeval{{Sec: t.Sec, Usec: t.Nsec / 1000}, {Sec: t.Sec, Usec: t.Nsec / 1000}}
		_ = unix.Futimes(int(f.Fd()), tv) // a time is no content: keep going without
	}
	return f.Sync()
}

// chown gives a restored file its owner back; a process that may not need not when it owns it already.
func chown(f *os.File, want plan.State) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Uid == want.UID && st.Gid == want.GID {
		return nil
	}
	return unix.Fchown(int(f.Fd()), int(want.UID), int(want.GID))
}

// replaceBy lets create make something under a temporary name and renames it into place.
func (s *Session) replaceBy(p string, create func(dir int, tmp string) error) error {
	at, err := s.root.locate(p, false)
	if err != nil {
		return err
	}
	defer at.close()
	dir, err := unix.Openat(at.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	tmp := tmpName(at.name)
	discard(dir, tmp)
	if err := create(dir, tmp); err != nil {
		discard(dir, tmp)
		return err
	}
	copyLabels(dir, at.name, tmp)
	s.failpoint("beside " + p)
	if err := unix.Renameat(dir, tmp, dir, at.name); err != nil {
		discard(dir, tmp)
		return err
	}
	s.failpoint("renamed " + p)
	return unix.Fsync(dir)
}

// directory makes a directory, or sets the mode of one that is there.
func (s *Session) directory(p string, m meta) error {
	now, err := s.root.state(plan.Key{Path: p, Follow: true})
	if err != nil {
		return err
	}
	if now.Type == plan.TypeAbsent {
		return s.replaceBy(p, func(dir int, tmp string) error {
			if err := unix.Mkdirat(dir, tmp, 0o700); err != nil {
				return err
			}
			return unix.Fchmodat(dir, tmp, bitsOf(m.mode), 0)
		})
	}
	at, err := s.root.locate(p, true)
	if err != nil {
		return err
	}
	defer at.close()
	if err := unix.Fchmodat(at.dir, at.name, bitsOf(m.mode), 0); err != nil {
		return err
	}
	return syncDir(at)
}

// remove unlinks a file or an empty directory; what is not there is fine.
func (s *Session) remove(p string, dir bool) error {
	at, err := s.root.locate(p, false)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.close()
	flags := 0
	if dir {
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(at.dir, at.name, flags); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return syncDir(at)
}

// mkdirAll makes the directories of the ledger itself, which no ledger records.
func (s *Session) mkdirAll(p string) error {
	if p == "/" {
		return nil
	}
	if real, err := s.root.Resolve(p); err == nil && s.root.Exists(real) {
		return nil
	}
	if err := s.mkdirAll(path.Dir(p)); err != nil {
		return err
	}
	real, err := s.root.Resolve(p) // a dangling link, as /var/run on a host without /run, is followed
	if err != nil {
		return fmt.Errorf("making directory %q: %w", p, err)
	}
	if err := s.directory(real, meta{mode: 0o755}); err != nil {
		return readOnly(p, fmt.Errorf("making directory %q: %w", p, err))
	}
	return nil
}

// sweep removes the half-written file that a crash may have left beside p.
func (s *Session) sweep(p string) {
	at, err := s.root.locate(p, false)
	if err != nil {
		return
	}
	defer at.close()
	discard(at.dir, tmpName(at.name))
}

// discard removes a temporary file or directory of ours; there need be none.
func discard(dir int, tmp string) {
	if err := unix.Unlinkat(dir, tmp, 0); errors.Is(err, unix.EISDIR) {
		_ = unix.Unlinkat(dir, tmp, unix.AT_REMOVEDIR)
	}
}

// syncDir makes the names in a place's directory durable.
func syncDir(at place) error {
	fd, err := unix.Openat(at.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

// copyLabels gives a replacement the security label of what it replaces; file
// systems without labels have none to copy.
func copyLabels(dir int, from, to string) {
	src := fmt.Sprintf("/proc/self/fd/%d/%s", dir, from)
	dst := fmt.Sprintf("/proc/self/fd/%d/%s", dir, to)
	buf := make([]byte, 1024)
	n, err := unix.Lgetxattr(src, "security.selinux", buf)
	if err == nil && n > 0 {
		_ = unix.Lsetxattr(dst, "security.selinux", buf[:n], 0)
	}
}
