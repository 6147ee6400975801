// Package confine takes rights away from the process that calls it, before it looks
// at anything: what a compromised reader cannot do, it need not be trusted with.
package confine

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// marker tells the process that it is the confined one. It grants nothing: one who
// sets it only leaves the confinement out for himself.
const marker = "GPU_NODE_CONFINED=1"

// ownProgram is this process's own program file.
const ownProgram = "/proc/self/exe"

// writes are the file rights that are given up, by the kernel's Landlock version
// that knows them: changing, truncating, making and removing files of any kind.
func writes(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM)
	for since, right := range map[int]uint64{2: unix.LANDLOCK_ACCESS_FS_REFER, 3: unix.LANDLOCK_ACCESS_FS_TRUNCATE, 5: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV} {
		if version >= since {
			rights |= right
		}
	}
	return rights
}

// ReadOnly gives up, for good, every right of this process to change a file, by
// whatever mount. A right is given up by a thread, and a Go process has many, so
// the calling one gives it up and then executes the program anew: on success this
// function does not return, and when called in the new process it returns nil at
// once. An error means that nothing was given up: the kernel has no Landlock.
func ReadOnly(argv, env []string) error {
	if slices.Contains(env, marker) {
		return nil
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("asking the kernel for Landlock: %w", errno)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := unix.LandlockRulesetAttr{Handled_access_fs: writes(int(version))}
	// Only the first member is passed: older kernels refuse a longer structure.
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("making a Landlock rule set: %w", errno)
	}
	defer func() { _ = unix.Close(int(set)) }()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("giving up the right to change files: %w", errno)
	}
	err := unix.Exec(ownProgram, argv, append(slices.Clip(env), marker))
	return fmt.Errorf("executing %s anew: %w", strings.Join(argv, " "), err)
}
