package inspector

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// readLimit bounds, in bytes, what is read of one file. dpkg's status file of a
// large installation has some megabytes.
const readLimit = 16 << 20

// Roots are the directories below which a node is looked at.
type Roots struct {
	// Host is the host's /.
	Host *host.Root
	// Sys and Proc are where the GPU's part of sysfs and procfs lies: the host's own,
	// unless told otherwise.
	Sys, Proc *host.Root
}

// OpenRoots opens the roots; sys and proc default to those below hostDir.
func OpenRoots(hostDir, sysDir, procDir string) (Roots, error) {
	if sysDir == "" {
		sysDir = path.Join(hostDir, names.SysDir)
	}
	if procDir == "" {
		procDir = path.Join(hostDir, names.ProcDir)
	}
	var r Roots
	var err error
	if r.Host, err = host.OpenRoot(hostDir); err != nil {
		return r, err
	}
	// An image that is looked at offline has no sysfs or procfs: an absent root is
	// one in which nothing is found.
	if r.Sys, err = openOptional(sysDir); err == nil {
		r.Proc, err = openOptional(procDir)
	}
	if err != nil {
		r.Close()
	}
	return r, err
}

// openOptional opens a root that may be absent (nil then).
func openOptional(dir string) (*host.Root, error) {
	r, err := host.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return r, err
}

// Close releases the roots.
func (r Roots) Close() {
	for _, root := range []*host.Root{r.Host, r.Sys, r.Proc} {
		if root != nil {
			_ = root.Close()
		}
	}
}

// Scanner looks at a node again and again, and remembers what need not be read
// twice. It is not safe for concurrent use.
type Scanner struct {
	roots  Roots
	arch   string
	hashes map[string]cachedState
	specs  map[string]parsedCDI
	procs  processes
	bins   map[string]string
}

// NewScanner returns a scanner; arch is the machine's architecture in Go's words.
func NewScanner(roots Roots, arch string) *Scanner {
	return &Scanner{roots: roots, arch: arch, hashes: map[string]cachedState{}, specs: map[string]parsedCDI{}, bins: map[string]string{}}
}

// Scan looks at everything once. What cannot be read becomes part of the result:
// one unreadable file hides nothing else.
func (s *Scanner) Scan() facts.Node {
	var n facts.Node
	s.scanIdentity(&n)
	s.scanPCI(&n)
	s.scanDriver(&n)
	s.scanRuntime(&n)
	s.scanEvidence(&n)
	s.scanCDI(&n)
	s.scanLedger(&n)
	return n
}

// text returns the content of a file without white space around it, "" when it
// cannot be read.
func text(r *host.Root, p string) string {
	data, _ := read(r, p)
	return strings.TrimSpace(string(data))
}

// read returns the content of a file below a root that may be absent.
func read(r *host.Root, p string) ([]byte, error) {
	if r == nil {
		return nil, fs.ErrNotExist
	}
	return r.ReadFile(path.Join("/", p), readLimit)
}

// list returns the names in a directory below a root that may be absent.
func list(r *host.Root, p string) ([]string, error) {
	if r == nil {
		return nil, fs.ErrNotExist
	}
	entries, err := r.ReadDir(path.Join("/", p))
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}

// linkBase returns the base name of what a symbolic link points to, "" when it is none.
func linkBase(r *host.Root, p string) string {
	seen, err := r.Observe([]plan.Key{{Path: path.Join("/", p)}})
	if err != nil {
		return ""
	}
	if st := seen.Paths[path.Join("/", p)]; st.Type == plan.TypeSymlink {
		return path.Base(st.Target)
	}
	return ""
}

// there says whether a path leads to something, links followed.
func there(r *host.Root, p string) bool {
	real, err := r.Resolve(p)
	return err == nil && r.Exists(real)
}
