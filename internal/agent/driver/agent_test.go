package driver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/fault"
	"gpu-operator/internal/host"
)

func TestEvidence(t *testing.T) {
	ready := v1alpha1.DriverState{Kind: "Host", Root: "/", LoadedVersion: "550.1", LibraryVersion: "550.1", Ready: true}
	tests := []struct {
		name   string
		state  v1alpha1.DriverState
		wanted string
		ready  bool
		reason string
		says   string // part of the message
	}{
		{"adopted", ready, "", true, "", "adopted driver 550.1 in /"},
		{"the wanted one", ready, "550.1", true, "", "adopted"},
		{"another than wanted", ready, "560.1", false, fault.ReasonDriverVersionMismatch, "wants 560.1"},
		{"none", v1alpha1.DriverState{Reason: fault.ReasonDriverNotLoaded, Message: "tried /a, /b"}, "", false, fault.ReasonDriverNotLoaded, "tried /a, /b; install NVIDIA's driver"},
		{"no reason given", v1alpha1.DriverState{Message: "no GPU"}, "", false, fault.ReasonDriverNotLoaded, "no GPU"},
		{"library missing", v1alpha1.DriverState{LoadedVersion: "550.1", Reason: fault.ReasonDriverLibraryMissing}, "", false, fault.ReasonDriverLibraryMissing, "user-space libraries"},
		{"no device node", v1alpha1.DriverState{LoadedVersion: "550.1", Reason: fault.ReasonDriverDeviceMissing}, "", false, fault.ReasonDriverDeviceMissing, "nvidia-modprobe"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Evidence(tt.state, tt.wanted)
			if e.Ready != tt.ready || e.Reason != tt.reason || !strings.Contains(e.Message, tt.says) {
				t.Errorf("Evidence = %+v", e)
			}
		})
	}
}

// TestPass: evidence is written once for one state, again when it changes or is gone.
func TestPass(t *testing.T) {
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, "proc/sys/kernel/random"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "proc/sys/kernel/random/boot_id"), []byte("boot-1\n"), 0o600))
	root, err := host.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	state := v1alpha1.DriverState{Reason: fault.ReasonDriverNotLoaded, Message: "m"}
	a := New(Deps{
		Root: root, Driver: func() v1alpha1.DriverState { return state }, Now: func() time.Time { return now },
		Pause: func(context.Context, time.Duration) {}, Ready: func(bool) {},
	})
	file := filepath.Join(dir, "run/nvidia/gpu-operator/driver.json")
	pass := func(want bool) v1alpha1.StepEvidence {
		t.Helper()
		ready, err := a.Pass(t.Context())
		check(t, err)
		data, err := os.ReadFile(file)
		check(t, err)
		e, err := facts.ParseEvidence(data)
		check(t, err)
		if ready != want || e.Ready != want || e.BootID != "boot-1" {
			t.Fatalf("ready = %v, evidence = %+v; want %v", ready, e, want)
		}
		return e
	}
	first := pass(false)
	now = now.Add(time.Hour)
	if again := pass(false); !again.Time.Equal(first.Time) {
		t.Errorf("evidence of an unchanged state was rewritten at %v", again.Time)
	}
	state = v1alpha1.DriverState{Root: "/", LoadedVersion: "1", Ready: true}
	if e := pass(true); e.Time.Equal(first.Time) {
		t.Error("a changed state kept its time")
	}
	check(t, os.Remove(file))
	pass(true)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
