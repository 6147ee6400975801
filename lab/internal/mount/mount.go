// Package mount looks at the machine's mounts and takes the lab's away.
package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// UnmountBelow unmounts everything at or below a folder, deepest first. A mount that
// is busy is taken out of the tree and ends with its last user.
func UnmountBelow(dir string) error {
	text, err := table()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range below(text, dir) {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unmounting %q: %w", m, err))
		}
	}
	return errors.Join(errs...)
}

// At reports whether something is mounted exactly at path.
func At(path string) bool {
	text, err := table()
	return err == nil && slices.Contains(below(text, path), filepath.Clean(path))
}

// table is the text of this process's mounts.
func table() (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("reading the list of mounts: %w", err)
	}
	return string(b), nil
}

// below lists the mount points of a mountinfo text at or below dir, the last
// mounted first.
func below(mountinfo, dir string) []string {
	const pointField = 4
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	dir = filepath.Clean(dir)
	var out []string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) <= pointField {
			continue
		}
		point := unescape.Replace(f[pointField])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			out = append(out, point)
		}
	}
	slices.Reverse(out)
	return out
}
