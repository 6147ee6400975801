package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/agent/inspector"
	"gpu-operator/internal/cluster/gpunode"
	"gpu-operator/internal/host/confine"
	"gpu-operator/internal/names"
)

// inspectOptions are the flags of `gpu-node inspect`, each with an environment twin.
type inspectOptions struct {
	hostRoot, sysRoot, procRoot string
	node, listen, output        string
	once                        bool
}

// NewInspectCommand returns `gpu-node inspect`.
func NewInspectCommand() *cobra.Command {
	o := &inspectOptions{}
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Say what this node is, in its GPUNode or on the terminal",
		Long: "Without --once it runs as the node inspector: it keeps the status of this node's\n" +
			"GPUNode equal to what the host is. With --once it looks at any directory as a host's\n" +
			"root, prints the same status, and exits 1 when it found something to act on.",
		Example: "  gpu-node inspect --once --host-root / -o text\n" +
			"  gpu-node inspect --once --host-root /mnt/image -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.once {
				return o.printOnce(cmd.OutOrStdout())
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(logr.NewContext(ctx, logr.FromSlogHandler(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.hostRoot, "host-root", envOr(names.EnvHostRoot, names.HostMount), "directory that is the host's / ("+names.EnvHostRoot+")")
	f.StringVar(&o.sysRoot, "gpu-sysfs-root", os.Getenv(names.EnvGPUSysfs), "sysfs in which GPUs are looked for; default HOST_ROOT/sys ("+names.EnvGPUSysfs+")")
	f.StringVar(&o.procRoot, "gpu-procfs-root", os.Getenv(names.EnvGPUProcfs), "procfs in which the driver is looked for; default HOST_ROOT/proc ("+names.EnvGPUProcfs+")")
	f.StringVar(&o.node, "node-name", os.Getenv(names.EnvNodeName), "name of this node ("+names.EnvNodeName+")")
	f.StringVar(&o.listen, "listen", ":8080", "address of /healthz and /readyz")
	f.BoolVar(&o.once, "once", false, "look once, print, and exit")
	f.StringVarP(&o.output, "output", "o", "text", "with --once: text, json or yaml")
	return cmd
}

// envOr returns an environment variable's value, or def when it is not set.
func envOr(key, def string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return def
}

// check refuses flags that cannot be right.
func (o *inspectOptions) check() error {
	switch {
	case !o.once && o.node == "":
		return fmt.Errorf("--node-name is empty: it names the GPUNode to write (%s); to look at a host without a cluster use --once", names.EnvNodeName)
	case o.output != "text" && o.output != "json" && o.output != "yaml":
		return fmt.Errorf("output is %q, want text, json or yaml", o.output)
	}
	return nil
}

// printOnce looks once and prints the status.
func (o *inspectOptions) printOnce(out io.Writer) error {
	roots, err := inspector.OpenRoots(o.hostRoot, o.sysRoot, o.procRoot)
	if err != nil {
		return err
	}
	defer roots.Close()
	st := inspector.StatusOf(inspector.NewScanner(roots, runtime.GOARCH).Scan())
	if err := printStatus(out, st, o.output); err != nil {
		return fmt.Errorf("printing status: %w", err)
	}
	for _, f := range st.Findings {
		if f.Severity != v1alpha1.SeverityInfo {
			return errDifferent
		}
	}
	return nil
}

// printStatus writes a status in one of the formats.
func printStatus(out io.Writer, st v1alpha1.GPUNodeStatus, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(st)
	case "yaml":
		data, err := yaml.Marshal(st)
		if err == nil {
			_, err = out.Write(data)
		}
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(k, format string, args ...any) { fmt.Fprintf(t, k+"\t"+format+"\n", args...) }
	row("Kernel", "%s (%s, %s %s), boot %s", st.Facts.Kernel, st.Facts.Arch, st.Facts.OSID, st.Facts.OSVersion, st.Facts.BootID)
	row("Runtime", "%s, %s", st.Facts.RuntimeVersion, st.Facts.RuntimeConfigPath)
	for _, g := range st.PCIGPUs {
		row("GPU", "%s device %s, driver %q", g.Address, g.DeviceID, g.Driver)
	}
	row("Driver", "%s, module %q, library %q, ready %t %s", st.Driver.Kind, st.Driver.LoadedVersion, st.Driver.LibraryVersion, st.Driver.Ready, st.Driver.Message)
	for _, e := range st.Evidence {
		row("Evidence", "%s ready %t %s %s", e.Step, e.Ready, e.Reason, e.Message)
	}
	for _, c := range st.CDI {
		row("CDI", "%s %s, %d devices, driver %s", c.Path, c.Kind, c.Devices, c.DriverVersion)
	}
	for _, c := range st.HostChanges {
		row("Host change", "%s %s by %s, now %s", c.Action, c.Path, c.Step, c.State)
	}
	row("Drift", "%s", st.Drift)
	row("Fingerprint", "%s", st.Fingerprint.Short)
	for _, f := range st.Findings {
		row(f.Severity, "%s: %s; %s", f.Reason, f.Evidence, f.Remedy)
	}
	return t.Flush()
}

// wallClock is the machine's clock.
type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// run is the node inspector.
func (o *inspectOptions) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	if err := confine.ReadOnly(os.Args, os.Environ()); err != nil {
		log.Info("Going on without giving up the right to change files; read-only mounts and dropped capabilities stand", "error", err.Error())
	}
	roots, err := inspector.OpenRoots(o.hostRoot, o.sysRoot, o.procRoot)
	if err != nil {
		return err
	}
	defer roots.Close()
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reading this pod's service account: %w", err)
	}
	store, err := gpunode.New(cfg, o.node, names.FieldManagerInspector)
	if err != nil {
		return err
	}
	scanner := inspector.NewScanner(roots, runtime.GOARCH)
	a := &inspector.Agent{Scan: scanner.Scan, Store: store, Clock: wallClock{}, Health: inspector.NewHealth(time.Now)}
	if w, err := inspector.NewWatcher(roots.Host); err != nil {
		log.Info("Going on without watching directories; changes are seen at the next period", "error", err.Error())
	} else {
		defer w.Close()
		a.Reports, a.Changes, a.Refresh = w.Reports(), w.Changes(), w.Refresh
	}
	server := &http.Server{Addr: o.listen, Handler: a.Health.Handler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	defer server.Close()
	log.Info("Inspecting", "node", o.node, "hostRoot", o.hostRoot)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serving probes on %q: %w", o.listen, err))
		}
	}()
	if err := a.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
