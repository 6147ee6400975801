package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/uuid"

	"gpu-operator/internal/agent/deviceplugin"
	"gpu-operator/internal/device"
	"gpu-operator/internal/names"
)

// devicePluginOptions are the flags of `gpu-node device-plugin`, each with an
// environment twin that has upstream's name.
type devicePluginOptions struct {
	gpuOptions
	mig, ways, idStrategy, prefix string
	socket, cdiDirs, ignore, heed string
}

// NewDevicePluginCommand returns `gpu-node device-plugin`.
func NewDevicePluginCommand() *cobra.Command {
	o := &devicePluginOptions{}
	cmd := &cobra.Command{
		Use:   "device-plugin",
		Short: "Offer this node's GPUs to the kubelet",
		Long: "Waits for the driver, offers the GPUs to the kubelet as nvidia.com/gpu, watches their\n" +
			"health, and answers containers with the CDI devices that they were given.",
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
	f.StringVar(&o.mig, "mig-strategy", os.Getenv(names.EnvMIGStrategy), "how MIG partitions are offered: none, single or mixed ("+names.EnvMIGStrategy+")")
	f.StringVar(&o.ways, "device-list-strategy", envOr(names.EnvDeviceListStrat, "cdi-annotations,cdi-cri"), "how the runtime is told of devices: cdi-cri, cdi-annotations, envvar, volume-mounts, or several ("+names.EnvDeviceListStrat+")")
	f.StringVar(&o.idStrategy, "device-id-strategy", envOr("DEVICE_ID_STRATEGY", "uuid"), "how devices are named in the environment: uuid or index (DEVICE_ID_STRATEGY)")
	f.StringVar(&o.prefix, "cdi-annotation-prefix", envOr("CDI_ANNOTATION_PREFIX", names.CDIAnnotationPrefix), "prefix of the CDI annotation's key (CDI_ANNOTATION_PREFIX)")
	f.StringVar(&o.socket, "kubelet-socket", envOr("KUBELET_SOCKET", names.KubeletSocket), "the kubelet's registration socket; ours are made beside it (KUBELET_SOCKET)")
	f.StringVar(&o.cdiDirs, "cdi-dirs", names.CDIDir+","+names.CDIStaticDir, "directories of CDI specs, separated by commas")
	f.StringVar(&o.ignore, "ignore-xids", os.Getenv("DP_DISABLE_HEALTHCHECKS"), "error codes that do not make a GPU unfit, separated by commas; all: none does (DP_DISABLE_HEALTHCHECKS)")
	f.StringVar(&o.heed, "heed-xids", os.Getenv("DP_ENABLE_HEALTHCHECKS"), "error codes that do although they usually do not (DP_ENABLE_HEALTHCHECKS)")
	return cmd
}

// settings checks the flags.
func (o *devicePluginOptions) settings() (deviceplugin.Settings, error) {
	var s deviceplugin.Settings
	strategy, err := device.ParseStrategy(o.mig)
	if err != nil {
		return s, err
	}
	ways, err := device.ParseWays(o.ways)
	if err != nil {
		return s, err
	}
	if o.idStrategy != "uuid" && o.idStrategy != "index" {
		return s, fmt.Errorf("device id strategy is %q, want uuid or index", o.idStrategy)
	}
	if filepath.Base(o.socket) != filepath.Base(names.KubeletSocket) {
		return s, fmt.Errorf("the kubelet's socket is %q, want a path that ends in %s", o.socket, filepath.Base(names.KubeletSocket))
	}
	table, err := device.NewTable(o.ignore, o.heed)
	if err != nil {
		return s, err
	}
	return deviceplugin.Settings{
		Strategy: strategy,
		Asks:     device.Asks{Ways: ways, ByIndex: o.idStrategy == "index", AnnotationPrefix: o.prefix},
		XIDs:     table, PluginDir: filepath.Dir(o.socket), CDIDirs: strings.Split(o.cdiDirs, ","),
	}, nil
}

// run is the device plugin.
func (o *devicePluginOptions) run(cmd *cobra.Command, s deviceplugin.Settings) error {
	gpus := o.client()
	defer gpus.Close()
	a := &deviceplugin.Agent{
		GPUs: gpus, Settings: s, Clock: wallClock{}, Health: deviceplugin.NewHealth(time.Now),
		NewID: func() string { return string(uuid.NewUUID()) }, Jitter: rand.Float64,
	}
	return serve(cmd, o.listen, a.Health.Handler(), func(ctx context.Context) error {
		reportIgnored(ctx, devicePluginIgnored())
		return a.Run(ctx)
	})
}

// devicePluginIgnored is the table of upstream's settings that have no effect.
func devicePluginIgnored() []setting {
	off := []string{"false"}
	return []setting{
		{"CONFIG_FILE", nil, "configuration files, and with them sharing of GPUs, are not read"},
		{"PASS_DEVICE_SPECS", off, "device nodes reach containers by CDI"},
		{"FAIL_ON_INIT_ERROR", off, "the driver is always waited for"},
		{"GDRCOPY_ENABLED", off, "containers get what they asked for, and nothing else"},
		{"GDS_ENABLED", off, "containers get what they asked for, and nothing else"},
		{"MOFED_ENABLED", off, "containers get what they asked for, and nothing else"},
		{"IMEX_CHANNEL_IDS", []string{"[]"}, "IMEX channels are not handed out"},
		{"IMEX_REQUIRED", off, "IMEX channels are not handed out"},
		{"DEVICE_DISCOVERY_STRATEGY", []string{"auto", "nvml"}, "devices are found by NVML"},
		{"CDI_FEATURE_FLAGS", nil, "the container toolkit writes the CDI specs"},
		{"NVIDIA_DEV_ROOT", nil, "the container toolkit writes the CDI specs"},
	}
}
