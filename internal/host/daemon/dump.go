package daemon

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"gpu-operator/internal/names"
)

// Dump lets the daemon's own binary print how it reads a configuration file: its
// `config dump`, run in the host's file system. An answer proves that the daemon
// would start with that file; an error carries what it complained of.
func Dump(ctx context.Context, hostRoot, executable, config string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, executable, "--config", config, "config", "dump")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + names.SearchPath}
	if hostRoot != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: hostRoot}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %q config dump on %q: %w: %s", executable, config, err, lastLine(errs.String()))
	}
	return out.Bytes(), nil
}

// lastLine returns the last line that says something.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
