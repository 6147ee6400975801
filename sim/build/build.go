// Package build makes a driver root of the simulated driver: the driver's
// libraries with gcc, its nvidia-smi with go, laid out as a distribution does.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// libDir is the library directory of a driver root.
const libDir = "usr/lib/x86_64-linux-gnu"

// version is what a driver's version may look like: 550.163.01.
var version = regexp.MustCompile(`^\d{3}\.\d{1,3}(\.\d{2})?$`)

// Libraries compiles libnvidia-ml and libcuda of a driver version from the
// sources below sim (the folder sim of the source tree) into the driver root out.
func Libraries(ctx context.Context, sim, driver, out string) error {
	if !version.MatchString(driver) {
		return fmt.Errorf("%q is not a driver version such as 550.163.01", driver)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return errors.New("the simulated driver is compiled with gcc, and there is none: install gcc")
	}
	dir := filepath.Join(out, libDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the library directory: %w", err)
	}
	stubs, err := stubSource(filepath.Join(sim, "nvml/symbols.txt"))
	if err != nil {
		return err
	}
	defer os.Remove(stubs)
	nvml := filepath.Join(sim, "nvml")
	for _, lib := range []struct {
		soname  string
		sources []string
	}{
		{"libnvidia-ml.so", []string{nvml + "/core.c", nvml + "/device.c", nvml + "/health.c", nvml + "/mig.c", nvml + "/state.c", stubs}},
		{"libcuda.so", []string{filepath.Join(sim, "cuda/cuda.c"), nvml + "/state.c"}},
	} {
		file := lib.soname + "." + driver
		args := append([]string{
			"-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared", "-I", nvml,
			"-Wl,-soname," + lib.soname + ".1", "-Wl,--build-id=none", "-DDRIVER_VERSION=\"" + driver + "\"", "-o", filepath.Join(dir, file),
		}, lib.sources...)
		if out, err := exec.CommandContext(ctx, "gcc", append(args, "-lpthread", "-ldl")...).CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", file, err, out)
		}
		for link, to := range map[string]string{lib.soname + ".1": file, lib.soname: lib.soname + ".1"} {
			if err := relink(to, filepath.Join(dir, link)); err != nil {
				return err
			}
		}
	}
	return nil
}

// relink makes or replaces a symbolic link.
func relink(to, at string) error {
	if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replacing link %q: %w", at, err)
	}
	if err := os.Symlink(to, at); err != nil {
		return fmt.Errorf("linking %q: %w", at, err)
	}
	return nil
}

// stubSource writes a C file in which every function of NVML that the simulation
// does not answer says "not supported" (3): go-nvml binds some of them by name.
func stubSource(symbols string) (string, error) {
	data, err := os.ReadFile(symbols)
	if err != nil {
		return "", fmt.Errorf("reading the list of NVML's functions: %w", err)
	}
	var b bytes.Buffer
	for s := range strings.FieldsSeq(string(data)) {
		fmt.Fprintf(&b, "__attribute__((weak, visibility(\"default\"))) int %s(void) { return 3; }\n", s)
	}
	f, err := os.CreateTemp("", "gpusim-stubs-*.c")
	if err != nil {
		return "", fmt.Errorf("writing stubs: %w", err)
	}
	_, err = f.Write(b.Bytes())
	return f.Name(), errors.Join(err, f.Close())
}

// DriverRoot makes the whole driver root, nvidia-smi included; repo is the root
// of the source tree.
func DriverRoot(ctx context.Context, repo, driver, out string) error {
	if err := Libraries(ctx, filepath.Join(repo, "sim"), driver, out); err != nil {
		return err
	}
	smi := filepath.Join(out, "usr/bin/nvidia-smi")
	if err := os.MkdirAll(filepath.Dir(smi), 0o755); err != nil {
		return fmt.Errorf("making the directory of nvidia-smi: %w", err)
	}
	abs, err := filepath.Abs(smi)
	if err != nil {
		return fmt.Errorf("finding %q: %w", smi, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -extldflags=-Wl,-z,lazy", "-o", abs, "./sim/cmd/nvidia-smi")
	cmd.Dir, cmd.Env = repo, append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building nvidia-smi: %w\n%s", err, out)
	}
	return nil
}
