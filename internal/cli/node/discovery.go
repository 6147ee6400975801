package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"gpu-operator/internal/agent/discovery"
	"gpu-operator/internal/cluster/gpunode"
	"gpu-operator/internal/device"
	"gpu-operator/internal/names"
)

// discoveryOptions are the flags of `gpu-node feature-discovery`, each with an
// environment twin that has upstream's name.
type discoveryOptions struct {
	gpuOptions
	node, hostRoot, machineFile, mig, period string
	once, noTimestamp                        bool
}

// NewFeatureDiscoveryCommand returns `gpu-node feature-discovery`.
func NewFeatureDiscoveryCommand() *cobra.Command {
	o := &discoveryOptions{}
	cmd := &cobra.Command{
		Use:   "feature-discovery",
		Short: "Derive node labels from this node's GPUs",
		Long: "Waits for the driver, derives the labels of the nvidia.com domain from what it says,\n" +
			"and writes them into the status of this node's GPUNode when they changed. The operator\n" +
			"copies them to the Node.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := o.settings()
			if err != nil {
				return err
			}
			return o.run(cmd, settings)
		},
	}
	o.add(cmd, ":8080")
	f := cmd.Flags()
	f.StringVar(&o.node, "node-name", os.Getenv(names.EnvNodeName), "name of this node ("+names.EnvNodeName+")")
	f.StringVar(&o.hostRoot, "host-root", envOr(names.EnvHostRoot, names.HostMount), "directory below which the host's boot id is found ("+names.EnvHostRoot+")")
	f.StringVar(&o.machineFile, "machine-type-file", envOr("GFD_MACHINE_TYPE_FILE", names.MachineTypeFile), "file with the machine's product name (GFD_MACHINE_TYPE_FILE)")
	f.StringVar(&o.mig, "mig-strategy", os.Getenv(names.EnvMIGStrategy), "how MIG partitions are offered: none, single or mixed ("+names.EnvMIGStrategy+")")
	f.StringVar(&o.period, "sleep-interval", envOr("GFD_SLEEP_INTERVAL", "60s"), "pause between looks at the GPUs, or infinite (GFD_SLEEP_INTERVAL)")
	f.BoolVar(&o.once, "oneshot", os.Getenv("GFD_ONESHOT") == "true", "end after the labels were written (GFD_ONESHOT)")
	f.BoolVar(&o.noTimestamp, "no-timestamp", os.Getenv("GFD_NO_TIMESTAMP") == "true", "leave out the label that says when the labels were derived (GFD_NO_TIMESTAMP)")
	return cmd
}

// settings checks the flags.
func (o *discoveryOptions) settings() (discovery.Settings, error) {
	s := discovery.Settings{NoTimestamp: o.noTimestamp, Once: o.once}
	if o.node == "" {
		return s, fmt.Errorf("--node-name is empty: it names the GPUNode to write (%s)", names.EnvNodeName)
	}
	var err error
	if s.Strategy, err = device.ParseStrategy(o.mig); err != nil {
		return s, err
	}
	if o.period == "infinite" {
		return s, nil
	}
	if s.Period, err = time.ParseDuration(o.period); err != nil || s.Period < time.Second {
		return s, fmt.Errorf("the sleep interval is %q, want a duration of at least 1s such as 60s, or infinite", o.period)
	}
	return s, nil
}

// run is the feature discovery.
func (o *discoveryOptions) run(cmd *cobra.Command, s discovery.Settings) error {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reading this pod's service account: %w", err)
	}
	store, err := gpunode.New(cfg, o.node, names.FieldManagerDiscovery)
	if err != nil {
		return err
	}
	gpus := o.client()
	defer gpus.Close()
	a := &discovery.Agent{
		GPUs: gpus, Store: store, Settings: s, Clock: wallClock{}, Health: discovery.NewHealth(time.Now, s.Period),
		Machine: func() string { return firstLine(o.machineFile) },
		BootID:  func() (string, error) { return bootID(o.hostRoot) },
	}
	return serve(cmd, o.listen, a.Health.Handler(), func(ctx context.Context) error {
		reportIgnored(ctx, discoveryIgnored())
		return a.Run(ctx)
	})
}

// firstLine returns a file's content without white space around it; a file that
// cannot be read has none.
func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(data))
}

// bootID reads the boot id of the host's kernel.
func bootID(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, names.BootIDFile))
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return string(bytes.TrimSpace(data)), nil
}

// discoveryIgnored is the table of upstream's settings that have no effect.
func discoveryIgnored() []setting {
	return []setting{
		{"GFD_OUTPUT_FILE", nil, "labels are written into the GPUNode"},
		{"GFD_USE_NODE_FEATURE_API", nil, "labels are written into the GPUNode"},
		{"CONFIG_FILE", nil, "configuration files, and with them sharing of GPUs, are not read"},
		{"FAIL_ON_INIT_ERROR", []string{"false"}, "the driver is always waited for"},
	}
}
