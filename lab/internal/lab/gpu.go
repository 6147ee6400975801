package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// gpusim is the simulation's tool inside a node.
const gpusim = "/usr/lib/gpusim/gpusim"

// SetGPUCommand is what changes a simulated GPU's state inside its node: pairs
// are key=value, as in temperature=91.
func SetGPUCommand(index int, pairs []string) ([]string, error) {
	if len(pairs) == 0 {
		return nil, fmt.Errorf("nothing to set on GPU %d: give key=value, as in temperature=91 or xid=79", index)
	}
	for _, p := range pairs {
		if key, _, ok := strings.Cut(p, "="); !ok || key == "" {
			return nil, fmt.Errorf("%q is not key=value, as in temperature=91", p)
		}
	}
	return append([]string{gpusim, "set", strconv.Itoa(index)}, pairs...), nil
}

// ShowGPUCommand prints the state of a node's simulated GPUs; index "" means all.
func ShowGPUCommand(index string) []string {
	argv := []string{gpusim, "show"}
	if index != "" {
		argv = append(argv, index)
	}
	return argv
}

// machineFile renders the description of a node's hardware.
func (l *Lab) machineFile(ctx context.Context, n Node) (string, error) {
	tool, err := l.builder.BuildProduct(ctx, "simbuild")
	if err != nil {
		return "", fmt.Errorf("describing the hardware of %q: %w", n.Name, err)
	}
	path := filepath.Join(l.State, "machines", n.Name+".yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("describing the hardware of %q: %w", n.Name, err)
	}
	err = l.simulator(ctx, tool, "machine", "--model", n.Machine, "--gpus", strconv.Itoa(n.GPUs), "--node", n.Name, "--out", path)
	if err != nil {
		return "", fmt.Errorf("describing the hardware of %q: %w", n.Name, err)
	}
	return path, nil
}

// simulator runs the simulation's builder in the source tree.
func (l *Lab) simulator(ctx context.Context, tool string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = l.Repo
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s %s: %w\n%s", filepath.Base(tool), strings.Join(args, " "), err, out.String())
	}
	return nil
}
