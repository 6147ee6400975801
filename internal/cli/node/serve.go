package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"gpu-operator/internal/gpu"
	"gpu-operator/internal/names"
)

// gpuOptions are the flags of the subcommands that use the driver.
type gpuOptions struct {
	listen, library, sysRoot string
	timeout                  time.Duration
}

// add registers the flags.
func (o *gpuOptions) add(cmd *cobra.Command, listen string) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", listen, "address of /healthz and /readyz")
	f.StringVar(&o.library, "nvml-library", os.Getenv("NVML_LIBRARY"), "path of libnvidia-ml.so.1; default: the linker's, then where drivers put it (NVML_LIBRARY)")
	f.StringVar(&o.sysRoot, "gpu-sysfs-root", envOr(names.EnvGPUSysfs, names.SysDir), "sysfs in which the slots of GPUs are looked up ("+names.EnvGPUSysfs+")")
	f.DurationVar(&o.timeout, "gpu-timeout", 3*time.Second, "how long one GPU may take to answer one question")
}

// client returns the driver.
func (o *gpuOptions) client() *gpu.Client {
	return gpu.New(gpu.Options{Library: o.library, Sysfs: o.sysRoot, Timeout: o.timeout})
}

// serve runs an agent beside its HTTP server until it is told to stop or one of the
// two ends.
func serve(cmd *cobra.Command, listen string, h http.Handler, run func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(logr.NewContext(ctx, logr.FromSlogHandler(jsonLog(cmd.ErrOrStderr()))))
	defer cancel(nil)
	server := &http.Server{Addr: listen, Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serving on %q: %w", listen, err))
		}
	}()
	defer server.Close()
	if err := run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// jsonLog writes structured lines.
func jsonLog(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) }

// setting is a variable of the peer's operand that has no effect here, with the
// values that ask for what happens anyway.
type setting struct {
	name     string
	harmless []string
	why      string
}

// reportIgnored says which settings in the environment have no effect: a setting is
// never silently ignored.
func reportIgnored(ctx context.Context, all []setting) {
	for _, s := range all {
		if v := os.Getenv(s.name); v != "" && !slices.Contains(s.harmless, v) {
			logr.FromContextOrDiscard(ctx).Info("A setting has no effect", "name", s.name, "value", v, "why", s.why)
		}
	}
}
