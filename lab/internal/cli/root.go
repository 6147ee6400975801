// Package cli is gpulab's command line: it reads flags, calls package lab and
// prints. Exit codes are 0 (done, or same), 1 (a difference was found), 2 (an
// error, with what to do about it); `run`, `exec`, `kubectl` and `helm` pass on
// the code of what they ran.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/build"
	"gpu-operator/lab/internal/lab"
)

// exitError is what gpulab exits with for an error of its own.
const exitError = 2

// Streams are the terminal's.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ExitCode carries a program's exit code through cobra.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// app is what all commands share.
type app struct {
	Streams

	// The lab's places; see the flags of the root command.
	repo, cache, state, run string
}

// NewCommand is gpulab's root command.
func NewCommand(s Streams) *cobra.Command {
	a := &app{Streams: s}
	root := &cobra.Command{
		Use:   "gpulab",
		Short: "A Kubernetes cluster of real nodes with simulated GPUs, on this machine",
		Long: `gpulab runs etcd, the Kubernetes control plane and nodes with a real systemd,
containerd and kubelet on this machine, each with simulated GPUs. Nothing in it
reaches the world, and "gpulab down" leaves nothing behind.`,
		Example: `  gpulab up --nodes 2 --gpus 8xH100-SXM5-80GB
  gpulab kubectl -- get nodes
  gpulab exec gpu-1 -- nvidia-smi
  gpulab down`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	f := root.PersistentFlags()
	f.StringVar(&a.repo, "repo", os.Getenv("GPULAB_REPO"), "the project's source tree (GPULAB_REPO; default: the one around the working directory)")
	f.StringVar(&a.cache, "cache", env("GPULAB_CACHE", "/var/cache/gpulab"), "where built programs are kept (GPULAB_CACHE)")
	f.StringVar(&a.state, "state", env("GPULAB_STATE", "/var/lib/gpulab"), "where the lab lives (GPULAB_STATE)")
	f.StringVar(&a.run, "run-dir", env("GPULAB_RUN", "/run/gpulab"), "where pid files are (GPULAB_RUN)")
	root.AddCommand(
		a.upCommand(), a.downCommand(), a.statusCommand(), a.nodeCommand(),
		a.kubectlCommand(), a.helmCommand(), a.runCommand(), a.execCommand(),
		a.hostDiffCommand(), a.gpuCommand(), a.imageCommand(), a.assetsCommand(), a.buildCommand(),
		a.fleetCommand(), a.demoCommand(),
	)
	return root
}

// Execute runs a command and returns the process's exit code.
func Execute(ctx context.Context, cmd *cobra.Command) int {
	err := cmd.ExecuteContext(ctx)
	var code ExitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), "gpulab: "+err.Error())
		return exitError
	}
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// open prepares the lab. Progress goes to the error stream of commands whose
// output is data.
func (a *app) open(ctx context.Context, progress io.Writer) (*lab.Lab, error) {
	repo := a.repo
	if repo == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("finding the working directory: %w", err)
		}
		if repo, err = build.FindRepo(wd); err != nil {
			return nil, err
		}
	}
	c := lab.Config{Repo: repo, Cache: a.cache, State: a.state, Run: a.run, Out: progress, Now: time.Now}
	for _, p := range []*string{&c.Repo, &c.Cache, &c.State, &c.Run} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, fmt.Errorf("making %q absolute: %w", *p, err)
		}
		*p = abs
	}
	return lab.Open(ctx, c)
}
