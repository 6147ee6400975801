package cdispec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MirrorDevices makes the nvidia device nodes of the host, below hostDev, in the
// agent's own /dev (dev), where the driver's library looks for them: a container
// gets the nodes that the host had when it started, and no later one. Nothing is
// changed on the host.
func MirrorDevices(hostDev, dev string) error {
	found, err := os.ReadDir(hostDev)
	if err != nil {
		return fmt.Errorf("listing device nodes in %q: %w", hostDev, err)
	}
	for _, e := range found {
		if !strings.HasPrefix(e.Name(), "nvidia") || e.Type()&os.ModeCharDevice == 0 {
			continue
		}
		if err := mirror(filepath.Join(hostDev, e.Name()), filepath.Join(dev, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// mirror makes one node unless the same is there.
func mirror(from, to string) error {
	var want, got unix.Stat_t
	if err := unix.Stat(from, &want); err != nil {
		return fmt.Errorf("looking at device node %q: %w", from, err)
	}
	err := unix.Lstat(to, &got)
	if err == nil && got.Rdev == want.Rdev && got.Mode&unix.S_IFMT == unix.S_IFCHR {
		return nil
	}
	if err == nil {
		if err := os.Remove(to); err != nil {
			return fmt.Errorf("replacing device node %q: %w", to, err)
		}
	} else if !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("looking at device node %q: %w", to, err)
	}
	if err := unix.Mknod(to, want.Mode, int(want.Rdev)); err != nil {
		return fmt.Errorf("making device node %q: %w", to, err)
	}
	return nil
}
