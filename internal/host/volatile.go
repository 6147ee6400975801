package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"gpu-operator/internal/names"
)

// WriteVolatile writes a file that a reboot removes: evidence and CDI specs. It is
// written atomically and stands in no ledger; a path outside /run is refused.
func (r *Root) WriteVolatile(p string, data []byte, mode fs.FileMode) error {
	if err := r.volatile(p); err != nil {
		return err
	}
	s := r.volatileSession()
	if err := s.mkdirAll(path.Dir(p)); err != nil {
		return err
	}
	if err := s.replace(p, bytesContent(data), meta{mode: mode}); err != nil {
		return fmt.Errorf("writing %q: %w", p, err)
	}
	return nil
}

// RemoveVolatile removes such a file, or an empty directory; a missing one is fine.
func (r *Root) RemoveVolatile(p string) error {
	if err := r.volatile(p); err != nil {
		return err
	}
	s := r.volatileSession()
	err := s.remove(p, false)
	if errors.Is(err, unix.EISDIR) {
		err = s.remove(p, true)
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", p, err)
	}
	return nil
}

// volatileSession writes without a lock and a ledger: every writer of such a file
// is the only one of that name.
func (r *Root) volatileSession() *Session {
	return &Session{root: r, failpoint: func(string) {}}
}

// volatile refuses paths that would outlive a reboot.
func (r *Root) volatile(p string) error {
	for _, prefix := range names.VolatileDirs() {
		if strings.HasPrefix(path.Clean(p), prefix) {
			return nil
		}
	}
	return fmt.Errorf("path %q is not below /run: it would outlive a reboot without a ledger entry", p)
}
