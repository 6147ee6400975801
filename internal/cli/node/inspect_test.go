package node

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpu-operator/api/v1alpha1"
)

// smallHost lays out a host with one GPU held by the named driver.
func smallHost(t *testing.T, driver string) string {
	t.Helper()
	dir := t.TempDir()
	pci := "sys/bus/pci/devices/0000:01:00.0/"
	for p, text := range map[string]string{
		"proc/sys/kernel/random/boot_id": "boot-1\n", "proc/sys/kernel/osrelease": "6.8.0\n", "etc/os-release": "ID=debian\n",
		pci + "vendor": "0x10de\n", pci + "device": "0x1eb8\n", pci + "class": "0x030200\n",
		"etc/containerd/config.toml": "version = 3\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../../bus/pci/drivers/"+driver, filepath.Join(dir, pci, "driver")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestInspect(t *testing.T) {
	tests := map[string]struct {
		// driver holds the GPU
		driver string
		args   []string
		// exit is the exit status, out a part of what is printed
		exit int
		out  string
	}{
		"finding":          {"nouveau", []string{"--once"}, ExitDifferent, "ForeignDriver: 0000:01:00.0 is bound to nouveau"},
		"belongs to VMs":   {"vfio-pci", []string{"--once"}, ExitSame, "GPUPassedThrough"},
		"json":             {"nouveau", []string{"--once", "-o", "json"}, ExitDifferent, `"bootID": "boot-1"`},
		"yaml":             {"nouveau", []string{"--once", "-o", "yaml"}, ExitDifferent, "bootID: boot-1"},
		"unknown format":   {"nouveau", []string{"--once", "-o", "xml"}, ExitError, `output is "xml", want text, json or yaml`},
		"no node name":     {"nouveau", []string{"--node-name="}, ExitError, "--node-name is empty"},
		"no such host":     {"nouveau", []string{"--once", "--host-root", "/no/such/host"}, ExitError, `opening host root "/no/such/host"`},
		"unexpected words": {"nouveau", []string{"--once", "now"}, ExitError, "unknown command"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := NewInspectCommand()
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetArgs(append([]string{"--host-root", smallHost(t, tt.driver)}, tt.args...))
			if exit := Execute(cmd); exit != tt.exit {
				t.Errorf("exit status %d, want %d", exit, tt.exit)
			}
			if !strings.Contains(out.String(), tt.out) {
				t.Errorf("printed:\n%s\nwant %q in it", out.String(), tt.out)
			}
		})
	}
}

// TestInspectJSONIsTheStatus: what is printed offline is what would be written.
func TestInspectJSONIsTheStatus(t *testing.T) {
	var out bytes.Buffer
	cmd := NewInspectCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--once", "-o", "json", "--host-root", smallHost(t, "nouveau")})
	Execute(cmd)
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	var st v1alpha1.GPUNodeStatus
	if err := dec.Decode(&st); err != nil {
		t.Fatal(err)
	}
	if st.GPUCount != 1 || st.Facts.BootID != "boot-1" || st.Fingerprint == nil {
		t.Errorf("status is %+v", st)
	}
}
