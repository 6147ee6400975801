package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"gpu-operator/internal/agent/inspector"
	agent "gpu-operator/internal/agent/toolkit"
	"gpu-operator/internal/agent/toolkit/cdispec"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
)

// newToolkitRun returns `gpu-node toolkit run`.
func newToolkitRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Keep this node's container runtime as the policy wants it, until told to stop",
		Long: "Runs on a node, in a privileged container that sees the host's / and process ids. It is configured by the\n" +
			"environment, under upstream's names (ROOT, CONTAINERD_CONFIG, RUNTIME_DROP_IN_CONFIG, CONTAINERD_SOCKET,\n" +
			"CONTAINERD_RUNTIME_CLASS, NVIDIA_RUNTIME_SET_AS_DEFAULT). Being stopped changes nothing on the host.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withToolkitAgent(cmd, func(ctx context.Context, a *agent.Agent) error { return a.Run(ctx) })
		},
	}
}

// newToolkitUninstall returns `gpu-node toolkit uninstall`.
func newToolkitUninstall() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Take back everything on this node as soon as no Pod needs it, then wait to be stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withToolkitAgent(cmd, func(ctx context.Context, a *agent.Agent) error {
				err := a.Uninstall(ctx)
				if err == nil {
					<-ctx.Done() // a container that ended would be started again
				}
				return err
			})
		},
	}
}

// withToolkitAgent builds the agent of this node and runs f until a signal ends it.
func withToolkitAgent(cmd *cobra.Command, f func(context.Context, *agent.Agent) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := logr.FromSlogHandler(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	ctx = logr.NewContext(ctx, log)
	cfg, err := agent.ConfigFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	roots, err := inspector.OpenRoots(cfg.HostRoot, cfg.GPUSysfs, cfg.GPUProcfs)
	if err != nil {
		return err
	}
	defer roots.Close()
	scanner := inspector.NewScanner(roots, runtime.GOARCH)
	if kubelet := scanner.Scan().Kubelet.Endpoint; kubelet != "" && !cfg.SocketNamed {
		cfg.Options.Socket = kubelet // k3s and others have it elsewhere
	}
	deps, err := toolkitDeps(cfg, roots, scanner, log)
	if err != nil {
		return err
	}
	a := agent.New(cfg, deps)
	var probes func() error
	if cfg.Listen != "" {
		probes = func() error { return a.Health().Serve(ctx, cfg.Listen) }
	}
	return besideProbes(probes, func() error { return f(ctx, a) })
}

// besideProbes runs an agent beside its probes' server (nil: none) and returns when
// the agent ends, or the server fails.
func besideProbes(probes, run func() error) error {
	failed := make(chan error, 1)
	if probes != nil {
		go func() { failed <- probes() }()
	}
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		if err != nil {
			return fmt.Errorf("serving probes: %w", err)
		}
		return <-done
	}
}

// toolkitDeps are the real things that the agent works with.
func toolkitDeps(cfg agent.Config, roots inspector.Roots, scanner *inspector.Scanner, log logr.Logger) (agent.Deps, error) {
	payload := agent.NewPayload(cfg.PayloadDir)
	manifest, err := payload.Manifest()
	if err != nil {
		return agent.Deps{}, err
	}
	generator := cdispec.Generator{
		HostRoot: cfg.HostRoot,
		Log:      func(format string, args ...any) { log.V(1).Info(fmt.Sprintf(format, args...)) },
		Exists:   existsFollowing(roots.Host),
	}
	if cfg.HostRoot != "/" {
		generator.Dev = names.DevDir
	}
	return agent.Deps{
		Root: roots.Host, Runtime: agent.NewHostRuntime(roots.Host, cfg.Options.Socket), Specs: generator, Driver: scanner.Driver, KubeletSocket: func() string { return scanner.Scan().Kubelet.Endpoint },
		Payload: payload, Manifest: manifest, Now: time.Now, Pause: pause,
	}, nil
}

// existsFollowing says whether a path leads to something on the host, links followed.
func existsFollowing(root *host.Root) func(string) bool {
	return func(p string) bool {
		real, err := root.Resolve(p)
		return err == nil && root.Exists(real)
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
