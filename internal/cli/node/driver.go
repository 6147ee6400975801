package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	agent "gpu-operator/internal/agent/driver"
	"gpu-operator/internal/agent/inspector"
	"gpu-operator/internal/agent/toolkit"
	"gpu-operator/internal/names"
)

// driverListen is where the driver agent answers probes.
const driverListen = ":8080"

// NewDriverCommand returns `gpu-node driver`.
func NewDriverCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "driver", Short: "Find and adopt the GPU driver that a node has"}
	cmd.AddCommand(newDriverDetect(), newDriverRun())
	return cmd
}

// newDriverDetect returns `gpu-node driver detect`.
func newDriverDetect() *cobra.Command {
	var root, sys, proc, output, wanted string
	cmd := &cobra.Command{
		Use:   "detect",
		Short: "Print which driver answers on a host: 0 one does, 1 none does, 2 it could not be found out",
		Example: "  gpu-node driver detect --root /\n" +
			"  gpu-node driver detect --root /mnt/image --wanted 550.163.01 -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			roots, err := inspector.OpenRoots(root, sys, proc)
			if err != nil {
				return err
			}
			defer roots.Close()
			state := inspector.NewScanner(roots, runtime.GOARCH).Driver()
			e := agent.Evidence(state, wanted)
			switch output {
			case "json":
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(map[string]any{"driver": state, "ready": e.Ready, "reason": e.Reason, "message": e.Message})
			case "text":
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "ready=%t kind=%s root=%s loaded=%s library=%s %s %s\n", e.Ready, state.Kind, state.Root, state.LoadedVersion, state.LibraryVersion, e.Reason, e.Message)
			default:
				return fmt.Errorf("output is %q, want text or json", output)
			}
			if err == nil && !e.Ready {
				return errDifferent
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&root, "root", "/", "directory that is the host's /")
	f.StringVar(&sys, "sysfs", os.Getenv(names.EnvGPUSysfs), "root of the GPU's part of sysfs (default ROOT/sys)")
	f.StringVar(&proc, "procfs", os.Getenv(names.EnvGPUProcfs), "root of the GPU's part of procfs (default ROOT/proc)")
	f.StringVar(&wanted, "wanted", "", "driver version that is wanted; empty accepts any")
	f.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// newDriverRun returns `gpu-node driver run`.
func newDriverRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Keep evidence of this node's driver until told to stop",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			ctx = logr.NewContext(ctx, logr.FromSlogHandler(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			return runDriver(ctx)
		},
	}
}

// runDriver builds the agent from the environment and runs it.
func runDriver(ctx context.Context) error {
	hostRoot := envOr(names.EnvHostRoot, names.HostMount)
	roots, err := inspector.OpenRoots(hostRoot, envOr(names.EnvGPUSysfs, path.Join(hostRoot, "sys")), envOr(names.EnvGPUProcfs, path.Join(hostRoot, "proc")))
	if err != nil {
		return err
	}
	defer roots.Close()
	health := &toolkit.Health{}
	a := agent.New(agent.Deps{
		Root: roots.Host, Driver: inspector.NewScanner(roots, runtime.GOARCH).Driver, Wanted: os.Getenv(names.EnvDriverVersion),
		Now: time.Now, Pause: pause, Ready: health.SetReady,
	})
	return besideProbes(func() error { return health.Serve(ctx, driverListen) }, func() error { return a.Run(ctx) })
}
