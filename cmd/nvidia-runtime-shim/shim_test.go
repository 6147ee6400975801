package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const dir = "/usr/local/nvidia/toolkit"

func TestCommand(t *testing.T) {
	tests := []struct {
		name       string
		self       string
		env        []string
		wantConfig string
		wantPath   string
	}{
		{"workload", dir + "/nvidia-container-runtime", []string{"PATH=/bin", "A=b"}, dir + "/.config/nvidia-container-runtime/config.toml", dir + ":/bin"},
		{"management", dir + "/nvidia-container-runtime.management", []string{"PATH=/bin"}, dir + "/.config/nvidia-container-runtime.management/config.toml", dir + ":/bin"},
		{"no PATH", dir + "/nvidia-container-runtime", nil, dir + "/.config/nvidia-container-runtime/config.toml", dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		{"a configuration in the environment does not count", dir + "/nvidia-container-runtime", []string{configEnv + "=/evil", "PATH=/bin"}, dir + "/.config/nvidia-container-runtime/config.toml", dir + ":/bin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := command(tt.self, []string{tt.self, "--root", "/r", "create", "id"}, tt.env)
			if c.path != dir+"/nvidia-container-runtime.real" || !slices.Equal(c.args, []string{c.path, "--root", "/r", "create", "id"}) {
				t.Errorf("becomes %q %q", c.path, c.args)
			}
			var config, path []string
			for _, e := range c.env {
				if v, ok := strings.CutPrefix(e, configEnv+"="); ok {
					config = append(config, v)
				}
				if v, ok := strings.CutPrefix(e, "PATH="); ok {
					path = append(path, v)
				}
			}
			if !slices.Equal(config, []string{tt.wantConfig}) || !slices.Equal(path, []string{tt.wantPath}) {
				t.Errorf("config %q, PATH %q", config, path)
			}
		})
	}
}

func TestNeedsNVIDIA(t *testing.T) {
	spec := func(text string) func(string) ([]byte, error) {
		return func(p string) ([]byte, error) {
			if p != "/b/config.json" {
				return nil, errors.New("no such file: " + p)
			}
			return []byte(text), nil
		}
	}
	tests := []struct {
		name string
		self string
		args []string
		spec string
		want bool // plain runc will not do
	}{
		{"a plain container is created", dir + "/nvidia-container-runtime", []string{"x", "create", "--bundle", "/b", "id"}, `{"annotations":{}}`, false},
		{"one that asks by annotation is not", dir + "/nvidia-container-runtime", []string{"x", "create", "--bundle=/b", "id"}, `{"annotations":{"cdi.k8s.io/x":"nvidia.com/gpu=0"}}`, true},
		{"short flag", dir + "/nvidia-container-runtime", []string{"x", "create", "-b", "/b", "id"}, `{"annotations":{"cdi.k8s.io/x":"nvidia.com/gpu=0"}}`, true},
		{"management is never created without", dir + "/nvidia-container-runtime.management", []string{"x", "create", "--bundle", "/b", "id"}, `{}`, true},
		{"management can be deleted", dir + "/nvidia-container-runtime.management", []string{"x", "delete", "id"}, ``, false},
		{"killing needs nothing", dir + "/nvidia-container-runtime", []string{"x", "kill", "id", "9"}, ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := needsNVIDIA(tt.self, tt.args, spec(tt.spec)); (got != "") != tt.want {
				t.Errorf("needsNVIDIA = %q, want %v", got, tt.want)
			}
		})
	}
}

func TestSelfPath(t *testing.T) {
	readlink := func(string) (string, error) { return "/opt/x/nvidia-container-runtime (deleted)", nil }
	for arg0, want := range map[string]string{"/abs/nvidia-container-runtime": "/abs/nvidia-container-runtime", "nvidia-container-runtime": "/opt/x/nvidia-container-runtime"} {
		if got, err := selfPath(arg0, readlink); err != nil || got != want {
			t.Errorf("selfPath(%q) = %q, %v; want %q", arg0, got, err, want)
		}
	}
}

func TestLowLevel(t *testing.T) {
	got := lowLevel("/first:relative::/usr/bin")
	if got[0] != "/first/runc" || got[1] != "/usr/bin/runc" || !slices.Contains(got, "/sbin/crun") || slices.Contains(got, "runc") {
		t.Errorf("lowLevel = %q", got)
	}
}
