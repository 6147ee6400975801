package containerd

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/plan"
)

func wanted() Want {
	return Want{Handlers: []Handler{{Name: "nvidia", Binary: "/t/nvidia-container-runtime", Annotations: true}, {Name: "nvidia-management", Binary: "/t/m"}}}
}

// effective is what a daemon of that version makes of the files: imports are merged
// key by key since 2.1, plugin by plugin before.
func effective(t *testing.T, version string, files ...File) map[string]any {
	t.Helper()
	nested := mergesNested(Facts{Version: version})
	out := map[string]any{}
	for _, f := range files {
		tr, err := parse(f.Path, f.Data)
		if err != nil {
			t.Fatal(err)
		}
		v, err := tr.version()
		if err != nil {
			t.Fatal(err)
		}
		plugins, _ := tr.top["plugins"].(map[string]any)
		for name, value := range plugins {
			key := name
			if name == criTable(v) {
				key = "CRI"
			}
			table, _ := value.(map[string]any)
			old, _ := out[key].(map[string]any)
			if nested {
				out[key] = deepMerge(old, table)
			} else {
				out[key] = maps.Clone(table)
			}
		}
	}
	return out
}

// after returns the files as a decision leaves them.
func after(t *testing.T, f Facts, d Decision) (Facts, []File) {
	t.Helper()
	files := map[string]File{f.Root.Path: f.Root}
	order := []string{f.Root.Path}
	for _, i := range f.Imported {
		files[i.Path] = i
		order = append(order, i.Path)
	}
	for _, s := range d.Steps {
		old, known := files[s.Path]
		next := s.Content
		if s.Kind == plan.KindEdit {
			var err error
			if next, err = Editors()[s.Edit.Name].Apply(s.Edit.Args, old.Data, old.Exists); err != nil {
				t.Fatal(err)
			}
		}
		files[s.Path] = File{Path: s.Path, Data: next, Exists: true}
		if !known {
			order = append(order, s.Path)
		}
	}
	var out []File
	next := Facts{Version: f.Version, Dump: f.Dump, KubeletCgroupDriver: f.KubeletCgroupDriver}
	for i, p := range order {
		out = append(out, files[p])
		if i == 0 {
			next.Root = files[p]
		} else {
			next.Imported = append(next.Imported, files[p])
		}
	}
	return next, out
}

// samples are root files of many shapes.
func samples() []string {
	table := `plugins."io.containerd.grpc.v1.cri"`
	v3 := `plugins."io.containerd.cri.v1.runtime"`
	return []string{
		"", "# only a comment", "version = 2\n", "version = 3\n",
		"version = 2\n[" + table + ".cni]\nbin_dir = \"/home/kubernetes/bin\"\n",
		"version = 2\n[" + table + "]\nsandbox_image = \"x\"\n[" + table + ".containerd]\ndefault_runtime_name = \"crun\"\n[" + table + ".containerd.runtimes.crun]\nruntime_type = \"io.containerd.runc.v2\"\n[" + table + ".containerd.runtimes.crun.options]\nBinaryName = \"/usr/bin/crun\"\nSystemdCgroup = true\n",
		"version = 2\n[" + table + ".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\nbase_runtime_spec = \"/etc/base.json\"\npod_annotations = [\"x.*\"]\n[" + table + ".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n",
		"version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n[" + v3 + ".containerd.runtimes.kata]\nruntime_type = \"io.containerd.kata.v2\"\n[" + v3 + ".containerd]\ndefault_runtime_name = \"kata\"\n",
		"version = 3\nimports = []\n[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\n",
		"[plugins.cri.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
		"oom_score = -999\n[grpc]\naddress = \"/run/containerd/containerd.sock\"\n",
	}
}

// TestOnlyOwnKeys: on every version and every sample, what the daemon reads
// afterwards is what it read before plus our handlers (and runc as it was, where
// naming a runtime hides the built-in one); and a second decision changes nothing.
func TestOnlyOwnKeys(t *testing.T) {
	for _, version := range []string{"1.6.20~ds1", "1.7.27", "v2.0.5", "2.1.0", "v2.4.2"} {
		for i, sample := range samples() {
			t.Run(fmt.Sprintf("%s/%d", version, i), func(t *testing.T) {
				f := Facts{Root: File{Path: "/etc/containerd/config.toml", Data: []byte(sample), Exists: sample != ""}, Version: version}
				d, err := Decide(f, wanted())
				if err != nil {
					t.Fatal(err)
				}
				next, files := after(t, f, d)
				before, now := effective(t, version, f.Root), effective(t, version, files...)
				cri, _ := now["CRI"].(map[string]any)
				runtimes := table(cri, "containerd", "runtimes")
				for _, h := range wanted().Handlers {
					if got := table(runtimes, h.Name, "options")["BinaryName"]; got != h.Binary {
						t.Errorf("handler %q runs %v, want %q", h.Name, got, h.Binary)
					}
					delete(runtimes, h.Name)
				}
				if table(before, "CRI", "containerd", "runtimes") == nil {
					delete(runtimes, "runc")
				}
				if diff := cmp.Diff(pruned(before), pruned(now)); diff != "" {
					t.Errorf("other keys changed (-before +after):\n%s", diff)
				}
				again, err := Decide(next, wanted())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(d, again); diff != "" {
					t.Errorf("second decision (-first +second):\n%s", diff)
				}
			})
		}
	}
}

// pruned returns a table without empty tables.
func pruned(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if t, ok := v.(map[string]any); ok {
			t = pruned(t)
			if len(t) == 0 {
				continue
			}
			v = t
		}
		out[k] = v
	}
	return out
}

// TestHandlerTakesOver: what our handler inherits from the daemon's own runtime.
func TestHandlerTakesOver(t *testing.T) {
	f := Facts{Root: File{Path: "/c", Data: []byte(samples()[6]), Exists: true}, Version: "2.4.2"}
	d, err := Decide(f, wanted())
	if err != nil {
		t.Fatal(err)
	}
	text := string(d.Steps[0].Content)
	if !strings.Contains(text, `base_runtime_spec = "/etc/base.json"`) || strings.Contains(text, "pod_annotations") || strings.Contains(text, "version = 3") {
		t.Errorf("drop-in:\n%s", text)
	}
	f.Root.Data = []byte(samples()[5])
	if d, err = Decide(f, wanted()); err != nil || d.LowLevel != "/usr/bin/crun" || !strings.Contains(string(d.Steps[0].Content), "SystemdCgroup = true") {
		t.Errorf("default runtime crun: %+v, %v", d, err)
	}
}

func TestNativeCDI(t *testing.T) {
	on := "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true\n"
	off := strings.Replace(on, "true", "false", 1)
	tests := []struct {
		version, root string
		want          bool
	}{
		{"1.6.20", on, false}, {"1.7.0", "version = 2\n", false}, {"1.7.0", on, true}, {"2.0.0", "version = 2\n", true}, {"2.4.2", off, false},
		{"", "version = 3\n", true}, {"", "version = 2\n", false},
	}
	for _, tt := range tests {
		d, err := Decide(Facts{Root: File{Path: "/c", Data: []byte(tt.root), Exists: true}, Version: tt.version}, wanted())
		if err != nil || d.NativeCDI != tt.want {
			t.Errorf("%s with %q: %v, %v; want %v", tt.version, tt.root, d.NativeCDI, err, tt.want)
		}
	}
}

func TestMajorMinor(t *testing.T) {
	tests := []struct {
		in           string
		major, minor int
		ok           bool
	}{
		{"2.4.2", 2, 4, true}, {"v2.1.0-rc.1", 2, 1, true}, {"1.6.20~ds1", 1, 6, true}, {"2.1", 2, 1, true}, {"2.1-beta", 2, 1, true}, {"2.x", 0, 0, false}, {"", 0, 0, false}, {"x.1", 0, 0, false},
	}
	for _, tt := range tests {
		major, minor, ok := majorMinor(tt.in)
		if ok != tt.ok || ok && (major != tt.major || minor != tt.minor) {
			t.Errorf("majorMinor(%q) = %d, %d, %v", tt.in, major, minor, ok)
		}
	}
}

// TestRehearse: the copy that the daemon reads beforehand imports what the planned
// root imports, absolute, and the planned files from where their copies lie.
func TestRehearse(t *testing.T) {
	copies := map[string]string{"/etc/containerd/conf.d/99-nvidia.toml": "/run/x/00.toml"}
	tests := []struct{ root, want string }{
		{"version = 3\nimports = [ 'a/*.toml', # c\n \"/b\" ]\n", "version = 3\nimports = [\"/etc/containerd/a/*.toml\", \"/b\", \"/run/x/00.toml\"]\n"},
		{"version = 3\n", "imports = [\"/run/x/00.toml\"]\nversion = 3\n"},
		{"[a]\n", "imports = [\"/run/x/00.toml\"]\n[a]\n"},
		{"", "imports = [\"/run/x/00.toml\"]\n"},
	}
	for _, tt := range tests {
		got, err := Rehearse(File{Path: "/etc/containerd/config.toml", Data: []byte(tt.root)}, copies)
		if err != nil || string(got) != tt.want {
			t.Errorf("Rehearse(%q) = %q, %v; want %q", tt.root, got, err, tt.want)
		}
	}
}

func TestProves(t *testing.T) {
	dump := func(binary string) []byte {
		return []byte("version = 4\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\nBinaryName = '" + binary + "'\nIoUid = 0\n")
	}
	one := wanted().Handlers[:1]
	if err := Proves(dump(one[0].Binary), one); err != nil {
		t.Error(err)
	}
	if err := Proves(dump("/other"), one); err == nil || !strings.Contains(err.Error(), "/other") {
		t.Errorf("another binary: %v", err)
	}
	if err := Proves([]byte("version = 4\n"), one); err == nil || !strings.Contains(err.Error(), "would not know") {
		t.Errorf("no handler: %v", err)
	}
	options, err := Options(dump("/b"), one)
	if err != nil || len(options["nvidia"]) != 1 {
		t.Errorf("Options = %v, %v", options, err)
	}
}

func TestDecideRefuses(t *testing.T) {
	inFile := "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"x\"\n"
	tests := []struct {
		name   string
		facts  Facts
		deflt  string
		reason string
	}{
		{"set as default before 2.1", Facts{Root: File{Path: "/c"}, Version: "1.7.1"}, "nvidia", fault.ReasonRuntimeUnsupported},
		{"a distribution's own runtime", Facts{Root: File{Path: "/c"}, Distribution: "k3s"}, "", fault.ReasonRuntimeUnsupported},
		{"somebody else's handler before 2.1", Facts{Root: File{Path: "/c", Data: []byte(inFile), Exists: true}, Version: "1.7.1"}, "", fault.ReasonHandlerTaken},
		{"imports that are no list", Facts{Root: File{Path: "/c", Data: []byte("version = 3\nimports = 1\n"), Exists: true}, Version: "2.4.2"}, "", fault.ReasonRuntimeConfigInvalid},
		{"half a block of ours", Facts{Root: File{Path: "/c", Data: []byte(blockBegin + "\n"), Exists: true}, Version: "1.7.1"}, "", "none"},
		{"an import that is broken", Facts{Root: File{Path: "/c"}, Imported: []File{{Path: "/d", Data: []byte("["), Exists: true}}, Version: "2.4.2"}, "", fault.ReasonRuntimeConfigInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := wanted()
			w.Default = tt.deflt
			d, err := Decide(tt.facts, w)
			if err == nil || fault.ReasonOf(err, "none") != tt.reason {
				t.Errorf("Decide = %+v, %v; want %s", d, err, tt.reason)
			}
		})
	}
}

// TestAliases: another name of a handler is written like it; where somebody else
// defines that name and cannot be overridden, theirs stays and the rest is done.
func TestAliases(t *testing.T) {
	w := Want{Handlers: []Handler{{Name: "nvidia", Binary: "/t/r"}, {Name: "nvidia-cdi", Binary: "/t/r", Alias: true}}}
	theirs := []byte("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia-cdi]\nruntime_type = \"io.containerd.runc.v2\"\n")
	for name, tc := range map[string]struct {
		data    []byte
		version string
		want    []string
	}{
		"free":                           {[]byte("version = 2\n"), "1.7.1", []string{"nvidia", "nvidia-cdi"}},
		"taken, cannot be overridden":    {theirs, "1.7.1", []string{"nvidia"}},
		"taken, overridden by a drop-in": {theirs, "2.2.0", []string{"nvidia", "nvidia-cdi"}},
	} {
		d, err := Decide(Facts{Root: File{Path: "/c", Data: tc.data, Exists: true}, Version: tc.version}, w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, h := range d.Handlers {
			got = append(got, h.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
