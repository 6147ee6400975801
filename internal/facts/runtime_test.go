package facts

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStartTicks(t *testing.T) {
	tests := map[string]struct {
		in   string
		want int64
		fail bool
	}{
		"plain":           {"640 (containerd) S 1 640 640 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 16 0 731 1 1", 731, false},
		"name with ) (":   {"640 (a b) (c) S 1 640 640 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 16 0 42 1 1", 42, false},
		"cut":             {"640 (containerd) S 1 640", 0, true},
		"no name":         {"640 containerd", 0, true},
		"not a number":    {"1 (a) S 1 640 640 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 16 0 x 1 1", 0, true},
		"process is gone": {"", 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseStartTicks([]byte(tt.in))
			if got != tt.want || (err != nil) != tt.fail {
				t.Errorf("got %d, error %v", got, err)
			}
		})
	}
}

func TestCmdlineFlag(t *testing.T) {
	c := ParseCmdline([]byte("/usr/bin/kubelet\x00--config=/a\x00--root-dir\x00/data\x00-v=2\x00--config=/b\x00--last\x00"))
	for flag, want := range map[string]string{"config": "/b", "root-dir": "/data", "v": "2", "last": "", "none": ""} {
		if got := c.Flag(flag); got != want {
			t.Errorf("flag %s: got %q, want %q", flag, got, want)
		}
	}
	if c.Name() != "kubelet" || ParseCmdline(nil).Name() != "" {
		t.Errorf("names: %q and %q", c.Name(), ParseCmdline(nil).Name())
	}
}

func TestKubeletOf(t *testing.T) {
	const def = "/run/containerd/containerd.sock"
	tests := map[string]struct {
		// args are the flags, config the configuration file
		args, config string
		want         Kubelet
		fail         bool
	}{
		"defaults":        {"kubelet", "", Kubelet{true, def, "/var/lib/kubelet"}, false},
		"from the file":   {"kubelet", "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n", Kubelet{true, "/run/crio/crio.sock", "/var/lib/kubelet"}, false},
		"flag wins":       {"kubelet\x00--container-runtime-endpoint=unix:///a.sock", "containerRuntimeEndpoint: unix:///b.sock\n", Kubelet{true, "/a.sock", "/var/lib/kubelet"}, false},
		"moved root":      {"kubelet\x00--root-dir=/data/kubelet/", "", Kubelet{true, def, "/data/kubelet"}, false},
		"file is no YAML": {"kubelet", "\t{", Kubelet{true, def, "/var/lib/kubelet"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := KubeletOf(ParseCmdline([]byte(tt.args)), []byte(tt.config), def)
			if (err != nil) != tt.fail {
				t.Errorf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got); d != "" && !tt.fail {
				t.Error(d)
			}
		})
	}
}

func TestDaemonOf(t *testing.T) {
	for endpoint, want := range map[string]string{
		"/run/containerd/containerd.sock": "containerd", "/run/k3s/containerd/containerd.sock": "containerd",
		"/var/run/crio/crio.sock": "cri-o", "/run/cri-dockerd.sock": "docker", "/run/other.sock": "",
	} {
		d, err := DaemonOf(endpoint)
		if d.Name != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %q, error %v", endpoint, d.Name, err)
		}
	}
}

func TestContainerdAddress(t *testing.T) {
	for config, want := range map[string]string{
		"version = 2\n[grpc]\naddress = \"/a.sock\"\n":                                 "/a.sock",
		"version = 4\n[plugins.'io.containerd.server.v1.grpc']\naddress = '/b.sock'\n": "/b.sock",
		"version = 3\n": "", "not toml [": "",
	} {
		if got := ContainerdAddress([]byte(config)); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}

func TestDaemonVersion(t *testing.T) {
	d := Daemons()[0]
	tests := map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"linked in":       {debug.BuildInfo{Main: debug.Module{Path: "github.com/containerd/containerd/v2", Version: "v2.0.0"}, Settings: []debug.BuildSetting{{Key: "-ldflags", Value: "-s -X github.com/containerd/containerd/v2/version.Version=v2.1.4 -X github.com/containerd/containerd/v2/version.Revision=abc"}}}, "2.1.4"},
		"main module":     {debug.BuildInfo{Main: debug.Module{Path: "github.com/containerd/containerd/v2", Version: "v2.1.4+dirty"}}, "2.1.4"},
		"first major":     {debug.BuildInfo{Main: debug.Module{Path: "github.com/containerd/containerd", Version: "v1.7.27"}}, "1.7.27"},
		"as a dependency": {debug.BuildInfo{Main: debug.Module{Path: "example.org/all", Version: "(devel)"}, Deps: []*debug.Module{{Path: "github.com/containerd/containerd/api", Version: "v1.9.0"}, {Path: "github.com/containerd/containerd/v2", Version: "v2.4.2"}}}, "2.4.2"},
		"another program": {debug.BuildInfo{Main: debug.Module{Path: "github.com/containerd/nerdctl", Version: "v2.0.0"}}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := d.BinaryVersion(&tt.info); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	status := "Package: containerd-app\nStatus: install ok installed\nVersion: 9\n\nPackage: containerd\nStatus: deinstall ok config-files\nVersion: 1.5\n\nPackage: containerd.io\nStatus: install ok installed\nVersion: 1:1.6.20~ds1-1+deb12u1\n"
	if got := d.PackageVersion([]byte(status)); got != "1.6.20~ds1" {
		t.Errorf("package version is %q", got)
	}
}

func TestNested(t *testing.T) {
	for in, want := range map[string]bool{"Name:\ta\nNSpid:\t12\n": false, "NSpid:\t12\t1\n": true, "": false} {
		if got := Nested([]byte(in)); got != want {
			t.Errorf("%q: got %t", in, got)
		}
	}
}

func FuzzLibraryPaths(f *testing.F) {
	f.Add([]byte("glibc-ld.so.cache1.1"), LibraryML)
	f.Add(append([]byte("glibc-ld.so.cache1.1\xff\xff\xff\xff"), make([]byte, 100)...), "")
	f.Fuzz(func(_ *testing.T, data []byte, soname string) {
		_, _ = LibraryPaths(data, soname) // must neither panic nor run away
	})
}

func FuzzParseCDI(f *testing.F) {
	f.Add([]byte("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCDI(data)
		if err == nil && (c.Kind == "" || len(c.Hash) != 64) {
			t.Errorf("read without error as %+v", c)
		}
	})
}
