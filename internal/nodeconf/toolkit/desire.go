package toolkit

import (
	"fmt"
	"path"
	"strings"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// Names of binaries. The launcher stands under the names that the runtime calls;
// NVIDIA's own runtime stands beside it.
const (
	BinaryRuntime           = "nvidia-container-runtime"
	BinaryRuntimeManagement = "nvidia-container-runtime.management"
	BinaryRuntimeReal       = "nvidia-container-runtime.real"
	BinaryCTK               = "nvidia-ctk"
	BinaryCDIHook           = "nvidia-cdi-hook"
	// PayloadShim is the launcher's name in our image.
	PayloadShim = "nvidia-runtime-shim"
)

// ConfigDir and the two below it hold the configurations; the launcher knows them.
const (
	configDir           = ".config"
	configWorkload      = "nvidia-container-runtime"
	configManagement    = "nvidia-container-runtime.management"
	configFile          = "config.toml"
	runtimeSpecDirs     = `["` + names.CDIStaticDir + `", "` + names.CDIDir + `"]`
	managementSpecDirs  = `["` + names.CDIDir + `"]`
	configHeader        = "# Written by gpu-operator; changes made here are overwritten.\n"
	binaryMode          = 0o755
	configurationMode   = 0o644
	lowLevelRuntimesDef = `"runc", "crun"`
)

// installed maps names on the host to names in the payload, in order of installation:
// what is called comes last, so that a launcher never stands without what it calls.
func installed() [][2]string {
	return [][2]string{
		{BinaryCDIHook, BinaryCDIHook},
		{BinaryCTK, BinaryCTK},
		{BinaryRuntimeReal, BinaryRuntime},
		{BinaryRuntime, PayloadShim},
		{BinaryRuntimeManagement, PayloadShim},
	}
}

// PayloadNames are the files that the image must carry.
func PayloadNames() []string { return []string{BinaryCDIHook, BinaryCTK, BinaryRuntime, PayloadShim} }

// Runtime is what the container runtime's configuration means for ours.
type Runtime struct {
	// NativeCDI says that the container runtime injects CDI devices itself.
	NativeCDI bool
	// LowLevel is the low-level runtime's binary; empty: runc from the PATH.
	LowLevel string
}

// Desire returns the steps that put the toolkit on a host: directories, binaries
// (payload, by name), and a configuration for each handler.
func Desire(o Options, payload map[string]plan.Source, r Runtime) ([]plan.Step, error) {
	dir := o.Dir()
	steps := []plan.Step{{Kind: plan.KindDirectory, Path: dir, Mode: 0o755, Why: "holds the toolkit's binaries"}}
	for _, pair := range installed() {
		src, ok := payload[pair[1]]
		if !ok {
			return nil, &fault.Fault{Reason: fault.ReasonPayloadMissing, Where: pair[1], Message: "the image lacks a file to install", Remedy: "build the image with " + strings.Join(PayloadNames(), ", ")}
		}
		steps = append(steps, plan.Step{Kind: plan.KindFile, Path: path.Join(dir, pair[0]), Source: &src, Mode: binaryMode, Why: "runs GPU containers"})
	}
	for _, c := range []struct{ dir, text string }{
		{configWorkload, workloadConfig(dir, r)},
		{configManagement, managementConfig(dir, r)},
	} {
		steps = append(steps, plan.Step{
			Kind: plan.KindFile, Path: path.Join(dir, configDir, c.dir, configFile), Content: []byte(c.text), Mode: configurationMode,
			Why: "configures the handler's runtime",
		})
	}
	return steps, nil
}

// workloadConfig is the configuration of the handler for workloads: a container
// gets devices by CDI request, never by an environment variable that any image
// may set.
func workloadConfig(dir string, r Runtime) string {
	prefixes := ""
	if !r.NativeCDI {
		prefixes = fmt.Sprintf("%q", names.CDIAnnotationPrefix)
	}
	return config(dir, false, names.CDIKind, runtimeSpecDirs, prefixes, r.LowLevel)
}

// managementConfig is the configuration of the management handler: the operands
// that it is kept for name their devices by NVIDIA_VISIBLE_DEVICES.
func managementConfig(dir string, r Runtime) string {
	return config(dir, true, names.CDIManagement, managementSpecDirs, "", r.LowLevel)
}

// config renders a configuration file of nvidia-container-runtime.
func config(dir string, acceptEnv bool, kind, specDirs, prefixes, lowLevel string) string {
	runtimes := lowLevelRuntimesDef
	if lowLevel != "" {
		runtimes = fmt.Sprintf("%q, %s", lowLevel, runtimes)
	}
	var b strings.Builder
	b.WriteString(configHeader)
	fmt.Fprintf(&b, "accept-nvidia-visible-devices-envvar-when-unprivileged = %t\n", acceptEnv)
	b.WriteString("accept-nvidia-visible-devices-as-volume-mounts = false\n\n")
	fmt.Fprintf(&b, "[nvidia-ctk]\npath = %q\n\n", path.Join(dir, BinaryCTK))
	fmt.Fprintf(&b, "[nvidia-container-runtime]\nlog-level = \"info\"\nmode = \"cdi\"\nruntimes = [%s]\n\n", runtimes)
	fmt.Fprintf(&b, "[nvidia-container-runtime.modes.cdi]\nannotation-prefixes = [%s]\ndefault-kind = %q\nspec-dirs = %s\n", prefixes, kind, specDirs)
	return b.String()
}
