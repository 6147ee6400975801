package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// marker is the file that makes a cache entry complete: it lists the entry's
// programs with their sizes.
const marker = ".complete"

// Builder fills the cache.
type Builder struct {
	// Repo is the root of the source tree, Cache the cache's folder.
	Repo, Cache string
	// GoVersion is the toolchain's version, part of every key.
	GoVersion string
	// Progress tells the person what takes long.
	Progress *Progress
}

// Build returns the folder of a component's programs, building them first when
// the cache has no complete entry. Two builders of one component wait for each
// other.
func (b *Builder) Build(ctx context.Context, name string) (string, error) {
	c, err := Find(name)
	if err != nil {
		return "", err
	}
	module := filepath.Join(b.Repo, "lab", "components", c.Name)
	key, err := Key(c, os.DirFS(module), b.GoVersion)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.Cache, "bin", c.Name, key)
	if complete(dir, c) {
		return dir, nil
	}
	unlock, err := lock(filepath.Join(b.Cache, "bin", c.Name+".lock"))
	if err != nil {
		return "", fmt.Errorf("building %s: %w", c.Name, err)
	}
	defer unlock()
	if complete(dir, c) {
		return dir, nil
	}
	if _, err := os.Lstat(dir); err == nil {
		b.Progress.Step("%s: a build was left half done, or damaged since, in %s; building it again", c.Name, dir)
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("removing the half-built %s: %w", c.Name, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache entry of %s: %w", c.Name, err)
	}
	if len(c.Debs) > 0 {
		err = b.unpackDebs(ctx, c, dir)
	} else {
		err = b.compile(ctx, c, module, dir)
	}
	if err != nil {
		return "", err
	}
	for _, l := range c.Links {
		if err := os.Symlink(c.Binaries[0].Name, filepath.Join(dir, l)); err != nil {
			return "", fmt.Errorf("linking %s: %w", l, err)
		}
	}
	if err := mark(dir, c); err != nil {
		return "", fmt.Errorf("marking %s as complete: %w", c.Name, err)
	}
	return dir, nil
}

// mark writes the marker of a finished entry.
func mark(dir string, c Component) error {
	var list strings.Builder
	for _, bin := range c.Binaries {
		fi, err := os.Stat(filepath.Join(dir, bin.Name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s %d\n", bin.Name, fi.Size())
	}
	return os.WriteFile(filepath.Join(dir, marker), []byte(list.String()), 0o644)
}

// complete says whether a cache entry was finished and still is as it was then.
func complete(dir string, c Component) bool {
	list, err := os.ReadFile(filepath.Join(dir, marker))
	if err != nil {
		return false
	}
	for _, bin := range c.Binaries {
		fi, err := os.Stat(filepath.Join(dir, bin.Name))
		if err != nil || !strings.Contains("\n"+string(list), fmt.Sprintf("\n%s %d\n", bin.Name, fi.Size())) {
			return false
		}
	}
	for _, l := range c.Links {
		if _, err := os.Stat(filepath.Join(dir, l)); err != nil {
			return false
		}
	}
	return true
}

// compile builds a component's binaries one by one: what they share is compiled
// once, and a failure names its program.
func (b *Builder) compile(ctx context.Context, c Component, module, dir string) error {
	for _, bin := range c.Binaries {
		out := &tail{}
		args := []string{"build", "-v", "-trimpath", "-ldflags", c.LDFlags, "-o", filepath.Join(dir, bin.Name)}
		if c.Tags != "" {
			args = append(args, "-tags", c.Tags)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, bin.Package)...)
		cmd.Dir = module
		cmd.Env = GoEnv(c.CGO)
		cmd.Stdout, cmd.Stderr = out, out
		err := b.Progress.During(fmt.Sprintf("building %s %s", bin.Name, c.Version), out.packages, cmd.Run)
		if err != nil {
			return fmt.Errorf("building %s %s in %s: %w\n%s", bin.Name, c.Version, module, err, out)
		}
	}
	return nil
}

// unpackDebs fetches Debian packages without installing them (an installed one
// would start a service on the machine) and takes their programs.
func (b *Builder) unpackDebs(ctx context.Context, c Component, dir string) error {
	tmp, err := os.MkdirTemp(b.Cache, "debs-*")
	if err != nil {
		return fmt.Errorf("creating a folder for the packages of %s: %w", c.Name, err)
	}
	defer os.RemoveAll(tmp)
	// apt drops its rights for a download, and its user must be able to write here.
	if err := os.Chmod(tmp, 0o777); err != nil {
		return fmt.Errorf("opening the folder for the packages of %s: %w", c.Name, err)
	}
	out := &tail{}
	// The machine's package lists may be older than the archive, or absent.
	script := `set -e; apt-get download "$@" || { apt-get update; apt-get download "$@"; }; for d in ./*.deb; do dpkg-deb -x "$d" root; done`
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, c.Debs...)...)
	cmd.Dir = tmp
	cmd.Stdout, cmd.Stderr = out, out
	what := "fetching Debian's " + strings.Join(c.Debs, ", ")
	if err := b.Progress.During(what, nil, cmd.Run); err != nil {
		return fmt.Errorf("%s: %w\n%s\n(needs the network and Debian's package archive; `gpulab build %s` fetches it ahead)", what, err, out, c.Name)
	}
	for _, bin := range c.Binaries {
		from := filepath.Join(tmp, "root", "usr", "bin", bin.Name)
		// Debian has /usr/bin/runc as a link to the file in sbin.
		if fi, err := os.Lstat(from); err != nil || !fi.Mode().IsRegular() {
			from = filepath.Join(tmp, "root", "usr", "sbin", bin.Name)
		}
		if err := os.Rename(from, filepath.Join(dir, bin.Name)); err != nil {
			return fmt.Errorf("taking %s from Debian's package: %w", bin.Name, err)
		}
	}
	return nil
}

// GoEnv is the environment of every go command here: nothing of a workspace or
// of a person's flags may change what is built.
func GoEnv(cgo bool) []string {
	enabled := "0"
	if cgo {
		enabled = "1"
	}
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED="+enabled)
}

// lock takes an exclusive lock on a file, waiting for whoever has it; the kernel
// frees it when its holder dies.
func lock(path string) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of lock %q: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening lock %q: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %q: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
