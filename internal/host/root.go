package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links followed on the way to one path, as Linux does.
const maxLinks = 40

// Root is a directory below which everything happens. Paths are absolute as the
// host sees them; symbolic links, absolute ones too, are resolved within the
// root, so that nothing outside it is ever reached.
type Root struct {
	dir string
	fd  int
}

// OpenRoot opens dir as a root.
func OpenRoot(dir string) (*Root, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening host root %q: %w", dir, err)
	}
	return &Root{dir: dir, fd: fd}, nil
}

// Close releases the root.
func (r *Root) Close() error { return unix.Close(r.fd) }

// Dir is the directory that the root was opened with.
func (r *Root) Dir() string { return r.dir }

// place is a name in an open directory.
type place struct {
	dir  int
	name string
	real string // the path with links resolved
}

func (p place) close() { _ = unix.Close(p.dir) }

// walker resolves a path step by step, with the open directories from the root down.
type walker struct {
	fds   []int
	names []string
	todo  []string
	links int
}

func (w *walker) close() {
	for _, fd := range w.fds {
		_ = unix.Close(fd)
	}
}

// top is the directory the walker stands in.
func (w *walker) top() int { return w.fds[len(w.fds)-1] }

// up goes to the parent; the root's parent is the root.
func (w *walker) up() {
	if len(w.fds) > 1 {
		_ = unix.Close(w.top())
		w.fds = w.fds[:len(w.fds)-1]
		w.names = w.names[:len(w.names)-1]
	}
}

// jump puts the target of a link in front of what is left to do.
func (w *walker) jump(target string) error {
	w.links++
	if w.links > maxLinks {
		return unix.ELOOP
	}
	if strings.HasPrefix(target, "/") {
		for len(w.fds) > 1 {
			w.up()
		}
	}
	w.todo = append(strings.Split(target, "/"), w.todo...)
	return nil
}

// locate finds the directory that holds p's last name. With follow, a final link
// is resolved as well.
func (r *Root) locate(p string, follow bool) (place, error) {
	fd, err := unix.FcntlInt(uintptr(r.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return place{}, pathError("open", p, err)
	}
	w := &walker{fds: []int{fd}, todo: strings.Split(p, "/")}
	defer w.close()
	for len(w.todo) > 0 {
		name := w.todo[0]
		w.todo = w.todo[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			w.up()
			continue
		}
		if last(w.todo) {
			target, err := readlinkat(w.top(), name)
			if follow && err == nil {
				if err := w.jump(target); err != nil {
					return place{}, pathError("open", p, err)
				}
				continue
			}
			return r.settle(w, name)
		}
		if err := w.enter(name); err != nil {
			return place{}, pathError("open", p, err)
		}
	}
	return r.settle(w, ".")
}

// settle returns the walker's place with a descriptor of its own.
func (r *Root) settle(w *walker, name string) (place, error) {
	fd, err := unix.FcntlInt(uintptr(w.top()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return place{}, err
	}
	return place{dir: fd, name: name, real: path.Join("/", path.Join(w.names...), name)}, nil
}

// enter goes down into name, which is a directory or a link to one.
func (w *walker) enter(name string) error {
	fd, err := unix.Openat(w.top(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		w.fds = append(w.fds, fd)
		w.names = append(w.names, name)
		return nil
	}
	if target, lerr := readlinkat(w.top(), name); lerr == nil {
		return w.jump(target)
	}
	return err
}

// last says that nothing but empty names is left.
func last(todo []string) bool {
	for _, t := range todo {
		if t != "" && t != "." {
			return false
		}
	}
	return true
}

// readlinkat reads a symbolic link.
func readlinkat(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// pathError wraps an error of a system call as the os package does.
func pathError(op, p string, err error) error { return &fs.PathError{Op: op, Path: p, Err: err} }

// Open opens a file for reading, following links within the root.
func (r *Root) Open(p string) (*os.File, error) {
	at, err := r.locate(p, true)
	if err != nil {
		return nil, err
	}
	defer at.close()
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError("open", p, err)
	}
	return os.NewFile(uintptr(fd), p), nil
}

// ReadFile reads a whole file of at most limit bytes; a larger one is an error.
func (r *Root) ReadFile(p string, limit int64) ([]byte, error) {
	f, err := r.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, pathError("read", p, errors.New("not a regular file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, pathError("read", p, fmt.Errorf("file is larger than %d bytes", limit))
	}
	return data, nil
}

// ReadDir lists the names in a directory, sorted.
func (r *Root) ReadDir(p string) ([]fs.DirEntry, error) {
	f, err := r.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.ReadDir(-1)
	if err != nil {
		return nil, pathError("readdir", p, err)
	}
	sortEntries(names)
	return names, nil
}

// Exists says whether something is at p, a dangling link included.
func (r *Root) Exists(p string) bool {
	at, err := r.locate(p, false)
	if err != nil {
		return false
	}
	defer at.close()
	var st unix.Stat_t
	return unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Resolve returns p with every link resolved within the root; the last name need not exist.
func (r *Root) Resolve(p string) (string, error) {
	at, err := r.locate(p, true)
	if err != nil {
		return "", err
	}
	defer at.close()
	return at.real, nil
}
