package daemon

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHandlers(t *testing.T) {
	tests := []struct {
		name   string
		config string
		want   map[string]Handler
		fails  bool
	}{
		{"containerd 2", `{"containerd":{"runtimes":{"nvidia":{"runtimeType":"io.containerd.runc.v2","options":{"BinaryName":"/x","SystemdCgroup":true}},"runc":{"runtimeType":"io.containerd.runc.v2","options":null}}}}`,
			map[string]Handler{
				"nvidia": {Name: "nvidia", Type: "io.containerd.runc.v2", Options: map[string]any{"BinaryName": "/x", "SystemdCgroup": true}},
				"runc":   {Name: "runc", Type: "io.containerd.runc.v2", Options: map[string]any{}},
			}, false},
		{"zero values say nothing", `{"containerd":{"runtimes":{"runc":{"options":{"BinaryName":"","IoUid":0,"SystemdCgroup":false,"Root":null}}}}}`,
			map[string]Handler{"runc": {Name: "runc", Options: map[string]any{}}}, false},
		{"no configuration told", ``, map[string]Handler{}, false},
		{"not JSON", `{`, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseHandlers([]byte(tt.config))
			if (err != nil) != tt.fails {
				t.Fatalf("error = %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if names := (Status{Handlers: map[string]Handler{"b": {}, "a": {}}}).Names(); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("Names = %q", names)
	}
}

// TestFindProcess finds this very process behind a socket of its own.
func TestFindProcess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := FindProcess(t.Context(), socket, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	self, _ := os.Executable()
	if p.PID != os.Getpid() || p.StartedAt <= 0 || p.Executable != self || p.Config != "" {
		t.Errorf("FindProcess = %+v, want pid %d of %s", p, os.Getpid(), self)
	}
	if _, err := FindProcess(t.Context(), socket+"x", "/proc"); err == nil || !strings.Contains(err.Error(), socket+"x") {
		t.Errorf("a missing socket: %v", err)
	}
	if _, err := FindProcess(t.Context(), socket, t.TempDir()); err == nil {
		t.Error("another proc: no error")
	}
}

func TestDump(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	out, err := Dump(t.Context(), "/", script("good", `echo "$@"`), "/etc/c.toml")
	if err != nil || string(out) != "--config /etc/c.toml config dump\n" {
		t.Errorf("Dump = %q, %v", out, err)
	}
	_, err = Dump(t.Context(), "/", script("bad", "echo first >&2; echo 'line 3 is wrong' >&2; exit 1"), "/etc/c.toml")
	if err == nil || !strings.Contains(err.Error(), "line 3 is wrong") || !strings.Contains(err.Error(), "/etc/c.toml") {
		t.Errorf("Dump of a bad file = %v", err)
	}
}

func TestKillsContainers(t *testing.T) {
	got := map[string]bool{}
	for _, mode := range []string{"process", "none", "mixed", "control-group"} {
		got[mode] = Unit{KillMode: mode}.KillsContainers()
	}
	if want := map[string]bool{"process": false, "none": false, "mixed": true, "control-group": true}; !maps.Equal(got, want) {
		t.Errorf("KillsContainers = %v, want %v", got, want)
	}
}
