// Package operator holds the commands of the gpu-operator binary.
package operator

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"gpu-operator/internal/controller"
	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// NewCommand returns the root command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "gpu-operator",
		Short:         "Makes every GPU node of a cluster ready from one ClusterPolicy",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, sub := range commands() {
		cmd.AddCommand(sub())
	}
	return cmd
}

// commands is the table of subcommands.
func commands() []func() *cobra.Command {
	return []func() *cobra.Command{newRunCommand, newRenderCommand}
}

// runOptions are the flags of `run`, each with a twin in the environment.
type runOptions struct {
	settings                operand.Settings
	pullPolicy              string
	leaderElect, verbose    bool
	metricsAddr, healthAddr string
}

// fromEnv is a variable's value, or fallback.
func fromEnv(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// addSettings adds the flags that render needs as well.
func (o *runOptions) addSettings(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.settings.Namespace, "namespace", fromEnv(names.EnvNamespace, names.DefaultNamespace), "namespace of the operator and its operands")
	f.StringVar(&o.settings.Image, "node-image", fromEnv("GPU_NODE_IMAGE", ""), "image of the node processes")
	f.StringVar(&o.pullPolicy, "node-image-pull-policy", fromEnv("GPU_NODE_IMAGE_PULL_POLICY", string(corev1.PullIfNotPresent)), "pull policy of that image")
	f.StringSliceVar(&o.settings.PullSecrets, "node-image-pull-secret", nil, "names of Secrets for pulling that image")
	f.StringVar(&o.settings.SysfsRoot, "host-sysfs-root", fromEnv("HOST_SYSFS_ROOT", names.SysDir), "host directory in which the GPU's sysfs files are")
	f.StringVar(&o.settings.ProcfsRoot, "host-procfs-root", fromEnv("HOST_PROCFS_ROOT", names.ProcDir), "host directory in which the GPU's procfs files are")
}

// complete validates what was given.
func (o *runOptions) complete() error {
	if o.settings.Image == "" {
		return errors.New("no image for the node processes: set --node-image or GPU_NODE_IMAGE")
	}
	switch p := corev1.PullPolicy(o.pullPolicy); p {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		o.settings.PullPolicy = p
	default:
		return fmt.Errorf("--node-image-pull-policy is %q: it must be Always, IfNotPresent or Never", o.pullPolicy)
	}
	return nil
}

// newRunCommand runs the operator.
func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run", Short: "Run the operator in a cluster", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			ctrl.SetLogger(zap.New(zap.UseDevMode(o.verbose)))
			cfg, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("finding the API server: %w", err)
			}
			return controller.Run(cmd.Context(), cfg, controller.Options{
				Settings: o.settings, LeaderElection: o.leaderElect, MetricsAddr: o.metricsAddr, HealthAddr: o.healthAddr,
				StatusEvery: time.Second, Now: time.Now,
			})
		},
	}
	o.addSettings(cmd)
	cmd.Flags().BoolVar(&o.leaderElect, "leader-elect", true, "let only one of several replicas act")
	cmd.Flags().BoolVar(&o.verbose, "verbose", false, "log in a form for people")
	cmd.Flags().StringVar(&o.metricsAddr, "metrics-addr", ":8080", "address of the operator's metrics; 0 is none")
	cmd.Flags().StringVar(&o.healthAddr, "health-addr", ":8081", "address of /healthz and /readyz")
	return cmd
}
