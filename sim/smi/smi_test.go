package smi

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpu-operator/sim/build"
	"gpu-operator/sim/hardware"
	"gpu-operator/sim/machine"
)

var update = flag.Bool("update", false, "write the golden files anew")

// rootEnv tells a test process which root's driver to ask. Each root needs a
// process of its own: a process loads one NVML.
const rootEnv = "SMI_TEST_ROOT"

// TestMain plays nvidia-smi when a test asks for it.
func TestMain(m *testing.M) {
	if root := os.Getenv(rootEnv); root != "" {
		lib := nvml.New(nvml.WithLibraryPath(filepath.Join(root, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")))
		os.Exit(Run(os.Args[2:], lib, time.Unix(1700000000, 0).UTC(), os.Stdout))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// newRoot is a node's root with the simulated driver loaded.
func newRoot(t *testing.T, model string, gpus int) hardware.Host {
	t.Helper()
	h := hardware.Host{Root: t.TempDir()}
	if err := build.Libraries(t.Context(), "..", "550.163.01", h.Root); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("../machines", model+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.ParseModel(model, data)
	if err != nil {
		t.Fatal(err)
	}
	made, err := machine.Make("gpu-1", m, gpus)
	if err != nil {
		t.Fatal(err)
	}
	text, err := machine.Format(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(h.Root, "etc/gpusim"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Root, hardware.MachineFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Boot(); err != nil {
		t.Fatal(err)
	}
	if err := h.Load("/"); err != nil {
		t.Fatal(err)
	}
	return h
}

// smi runs nvidia-smi on a root and returns what it printed and its exit status.
func smi(t *testing.T, h hardware.Host, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"--"}, args...)...)
	cmd.Env = append(os.Environ(), rootEnv+"="+h.Root)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("running nvidia-smi: %v", err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// set changes a GPU of a root.
func set(t *testing.T, h hardware.Host, index int, pairs ...string) {
	t.Helper()
	if err := h.Set(index, pairs); err != nil {
		t.Fatal(err)
	}
}

func TestGoldens(t *testing.T) {
	h100, mig := newRoot(t, "H100-SXM5-80GB", 2), newRoot(t, "H100-SXM5-80GB", 2)
	set(t, mig, 1, "mig=3g.40gb,1g.20gb,1g.10gb")
	t4 := newRoot(t, "T4", 1)
	set(t, t4, 0, "temperature=71", "utilisation.gpu=97", "process.1=4242:1073741824")
	for name, tc := range map[string]struct {
		host hardware.Host
		args []string
	}{
		"h100-list":  {h100, []string{"-L"}},
		"h100-mig":   {mig, []string{"-L"}},
		"h100-table": {h100, nil},
		"h100-query": {h100, []string{"--query-gpu=index,name,uuid,driver_version,memory.total,power.limit,temperature.memory,mig.mode.current", "--format=csv"}},
		"t4-table":   {t4, nil},
		"t4-query":   {t4, []string{"--query-gpu=utilization.gpu,memory.used,mig.mode.current,temperature.memory", "--format=csv,noheader,nounits"}},
		"t4-full":    {t4, []string{"-q"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := smi(t, tc.host, tc.args...)
			if code != 0 {
				t.Errorf("exit status %d", code)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out); d != "" {
				t.Errorf("output (-want +got):\n%s", d)
			}
		})
	}
}

// TestVisibility: a container that was given one device node sees that GPU alone,
// as number 0.
func TestVisibility(t *testing.T) {
	h := newRoot(t, "H100-SXM5-80GB", 4)
	all, _ := smi(t, h, "-L")
	lines := strings.Split(strings.TrimSpace(all), "\n")
	for i := range 4 {
		if i != 2 {
			if err := os.Remove(filepath.Join(h.Root, fmt.Sprintf("dev/nvidia%d", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	one, code := smi(t, h, "-L")
	want := strings.Replace(lines[2], "GPU 2:", "GPU 0:", 1) + "\n"
	if code != 0 || one != want {
		t.Errorf("one device node: %q, want %q", one, want)
	}
	if err := os.Remove(filepath.Join(h.Root, "dev/nvidia2")); err != nil {
		t.Fatal(err)
	}
	if out, code := smi(t, h); code != exitNoDevices || !strings.Contains(out, "No devices were found") {
		t.Errorf("no device node: exit %d, %q", code, out)
	}
	if err := os.Remove(filepath.Join(h.Root, "dev/nvidiactl")); err != nil {
		t.Fatal(err)
	}
	if out, code := smi(t, h, "-L"); code != exitNoDriver || !strings.Contains(out, noDriver) {
		t.Errorf("no control node: exit %d, %q", code, out)
	}
}

// TestLostGPU: a GPU that fell off the bus is named, and the others answer.
func TestLostGPU(t *testing.T) {
	h := newRoot(t, "H100-SXM5-80GB", 3)
	set(t, h, 1, "lost=true")
	out, _ := smi(t, h, "-L")
	if strings.Count(out, "UUID: GPU-") != 2 || !strings.Contains(out, "gpu 1: GPU is lost") {
		t.Errorf("one of three lost:\n%s", out)
	}
	set(t, h, 1, "lost=false")
	if out, _ := smi(t, h, "-L"); strings.Count(out, "UUID: GPU-") != 3 {
		t.Errorf("it came back:\n%s", out)
	}
}

func TestBadCalls(t *testing.T) {
	h := newRoot(t, "T4", 1)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown option":    {[]string{"--colour"}, exitBadUsage, `invalid option "--colour"`},
		"unknown field":     {[]string{"--query-gpu=colour", "--format=csv"}, exitBadUsage, `Field "colour" is not a valid field`},
		"query without csv": {[]string{"--query-gpu=name"}, exitBadUsage, "--query-gpu needs --format=csv"},
		"unknown GPU":       {[]string{"-i", "7"}, exitNoDevices, `No devices were found with id "7"`},
		"missing value":     {[]string{"-i"}, exitBadUsage, "needs a value"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, code := smi(t, h, tc.args...); code != tc.code || !strings.Contains(out, tc.want) {
				t.Errorf("exit %d, want %d; %q, want %q", code, tc.code, out, tc.want)
			}
		})
	}
}

// TestVersionMismatch: a library that was updated under a loaded module says so, also
// when its own version was loaded in a former life of the machine.
func TestVersionMismatch(t *testing.T) {
	h := newRoot(t, "T4", 1)
	if err := build.Libraries(t.Context(), "..", "570.86.15", h.Root); err != nil {
		t.Fatal(err)
	}
	if out, code := smi(t, h, "-L"); code != exitNoDriver || !strings.Contains(out, "version mismatch") {
		t.Errorf("exit %d, %q", code, out)
	}
	if err := h.Unload(func() ([]string, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	// The state of the former version comes back, as after a power cut.
	old := filepath.Join(h.Root, "lib/firmware/nvidia/550.163.01/gsp_sim.bin")
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Load("/"); err != nil {
		t.Fatal(err)
	}
	if out, code := smi(t, h, "-L"); code != 0 || !strings.Contains(out, "Tesla T4") {
		t.Errorf("after the new version was loaded: exit %d, %q", code, out)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the former version's state is still there: %v", err)
	}
}
