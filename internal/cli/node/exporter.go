package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"gpu-operator/internal/agent/exporter"
	"gpu-operator/internal/gpu"
	"gpu-operator/internal/names"
)

// exporterOptions are the flags of `gpu-node exporter`, each with an environment twin
// that has upstream's name.
type exporterOptions struct {
	gpuOptions
	counters, interval, node, socket, resources string
	kubernetes, noHostname, replaceBlanks       bool
}

// NewExporterCommand returns `gpu-node exporter`.
func NewExporterCommand() *cobra.Command {
	o := &exporterOptions{}
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Export metrics of this node's GPUs",
		Long: "Waits for the driver, reads the GPUs at a period of its own, and serves the last\n" +
			"readings on /metrics with the container, namespace and pod that has each GPU.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.add(cmd, envOr("DCGM_EXPORTER_LISTEN", ":9400"))
	f := cmd.Flags()
	f.StringVar(&o.counters, "collectors", envOr("DCGM_EXPORTER_COLLECTORS", names.CountersFile), "file of metrics to export; the built-in ones when the default file is not there (DCGM_EXPORTER_COLLECTORS)")
	f.StringVar(&o.interval, "collect-interval", envOr("DCGM_EXPORTER_INTERVAL", "10000"), "pause between readings in milliseconds (DCGM_EXPORTER_INTERVAL)")
	f.StringVar(&o.node, "node-name", os.Getenv(names.EnvNodeName), "value of the label Hostname; default: the host name ("+names.EnvNodeName+")")
	f.StringVar(&o.socket, "pod-resources-socket", envOr("DCGM_POD_RESOURCES_KUBELET_SOCKET", names.PodResourcesSocket), "the kubelet's socket that tells who has which GPU (DCGM_POD_RESOURCES_KUBELET_SOCKET)")
	f.StringVar(&o.resources, "resource-names", os.Getenv("NVIDIA_RESOURCE_NAMES"), "resources beside nvidia.com/gpu and nvidia.com/mig-… whose devices are GPUs (NVIDIA_RESOURCE_NAMES)")
	f.BoolVar(&o.kubernetes, "kubernetes", os.Getenv("DCGM_EXPORTER_KUBERNETES") == "true", "label metrics with container, namespace and pod (DCGM_EXPORTER_KUBERNETES)")
	f.BoolVar(&o.noHostname, "no-hostname", os.Getenv("DCGM_EXPORTER_NO_HOSTNAME") == "true", "leave out the label Hostname (DCGM_EXPORTER_NO_HOSTNAME)")
	f.BoolVar(&o.replaceBlanks, "replace-blanks-in-model-name", os.Getenv("DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME") == "true", "put - for blanks in model names (DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME)")
	return cmd
}

// run is the exporter.
func (o *exporterOptions) run(cmd *cobra.Command) error {
	ms, err := strconv.Atoi(o.interval)
	if err != nil || ms < 100 {
		return fmt.Errorf("the collect interval is %q, want a number of milliseconds of at least 100", o.interval)
	}
	a := &exporter.Agent{Period: time.Duration(ms) * time.Millisecond, Clock: wallClock{}}
	if a.View, err = o.view(); err != nil {
		return err
	}
	if o.kubernetes {
		k, err := exporter.NewKubelet(o.socket, listOf(o.resources))
		if err != nil {
			return err
		}
		defer k.Close()
		a.Pods = k
	}
	gpus := o.client()
	defer gpus.Close()
	a.GPUs = gpus
	return serve(cmd, o.listen, a.Handler(), func(ctx context.Context) error {
		reportIgnored(ctx, exporterIgnored())
		for _, c := range a.View.Unavailable {
			logr.FromContextOrDiscard(ctx).Info("A counter that was asked for cannot be read", "field", c.Field)
		}
		return a.Run(ctx)
	})
}

// view reads what to export.
func (o *exporterOptions) view() (exporter.View, error) {
	v := exporter.View{Kubernetes: o.kubernetes, ReplaceBlanks: o.replaceBlanks}
	if !o.noHostname {
		v.Hostname = o.node
		if v.Hostname == "" {
			name, err := os.Hostname()
			if err != nil {
				return v, fmt.Errorf("asking for the host's name: %w", err)
			}
			v.Hostname = name
		}
	}
	counters, err := readCounters(o.counters)
	if err != nil {
		return v, err
	}
	v.Counters, v.Unavailable = exporter.Split(counters, gpu.Fields())
	return v, nil
}

// readCounters reads the file of counters. Files that the peer's image carries are
// asked for by manifests that were written for it; where they are not, the built-in
// counters are meant.
func readCounters(path string) ([]exporter.Counter, error) {
	data, err := os.ReadFile(path)
	carried := []string{"default-counters.csv", "dcp-metrics-included.csv"}
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(carried, filepath.Base(path)) {
		return exporter.DefaultCounters()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the counters to export: %w", err)
	}
	counters, err := exporter.ParseCounters(string(data))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return counters, nil
}

// listOf splits a list at commas.
func listOf(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
}

// exporterIgnored is the table of upstream's settings that have no effect.
func exporterIgnored() []setting {
	off := []string{"false"}
	return []setting{
		{"DCGM_REMOTE_HOSTENGINE_INFO", nil, "GPUs are read by NVML, without a DCGM host engine"},
		{"DCGM_EXPORTER_CONFIGMAP_DATA", []string{"none"}, "counters are read from a file: mount the ConfigMap"},
		{"DCGM_EXPORTER_USE_OLD_NAMESPACE", off, "only the present label names are used"},
		{"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", []string{"uid"}, "devices are known by UUID"},
		{"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", off, "the exporter has no access to the API"},
		{"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", off, "the exporter has no access to the API"},
		{"KUBERNETES_VIRTUAL_GPUS", off, "a shared GPU is attributed to one container"},
		{"KUBERNETES_ENABLE_DRA", off, "devices of resource claims are not attributed"},
		{"DCGM_EXPORTER_DEVICES_STR", []string{"f"}, "all GPUs are exported"},
		{"DCGM_EXPORTER_OTHER_DEVICES_STR", []string{"f"}, "switches are not exported"},
		{"DCGM_EXPORTER_CPU_DEVICES_STR", []string{"f"}, "processors are not exported"},
		{"DCGM_EXPORTER_WEB_CONFIG_FILE", nil, "metrics are served without TLS and passwords"},
		{"DCGM_HPC_JOB_MAPPING_DIR", nil, "jobs of batch systems are not attributed"},
	}
}
