package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

const k3sRoot = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"

// distribution plays k3s: at each start it renders its root file from the user's
// template, or its own, and adds NVIDIA's runtime where it finds it.
type distribution struct {
	version  int
	imports  bool
	cdi      bool
	template *File // the user's; nil: none
	binaries []string
}

// base is the distribution's own template.
func (d distribution) base() string {
	cri := `"io.containerd.grpc.v1.cri"`
	if d.version == 3 {
		cri = `'io.containerd.cri.v1.runtime'`
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version = %d\n", d.version)
	if d.imports {
		b.WriteString("imports = [\"/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml\"]\n")
	}
	fmt.Fprintf(&b, "[plugins.%s]\nenable_cdi = %v\n[plugins.%s.cni]\nconf_dir = \"/x\"\n", cri, d.cdi, cri)
	fmt.Fprintf(&b, "[plugins.%s.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n[plugins.%s.containerd.runtimes.runc.options]\nSystemdCgroup = {{ .SystemdCgroup }}\n", cri, cri)
	fmt.Fprintf(&b, "{{ range $k, $v := .ExtraRuntimes }}[plugins.%s.containerd.runtimes.\"{{$k}}\"]\nruntime_type = \"io.containerd.runc.v2\"\n[plugins.%s.containerd.runtimes.\"{{$k}}\".options]\nBinaryName = \"{{$v}}\"\nSystemdCgroup = true\n{{ end }}", cri, cri)
	return b.String()
}

// start renders the root.
func (d distribution) start(t *testing.T) []byte {
	t.Helper()
	text := `{{ template "base" . }}`
	if d.template != nil {
		text = string(d.template.Data)
	}
	found := map[string]string{}
	for _, dir := range names.FoundRuntimeDirs() {
		for _, b := range d.binaries {
			if b == dir+"/nvidia-container-runtime" && found["nvidia"] == "" {
				found["nvidia"] = b
			}
		}
	}
	tmpl := template.Must(template.New("config").Parse(text))
	template.Must(tmpl.New("base").Parse(d.base()))
	var out bytes.Buffer
	if err := tmpl.Execute(&out, map[string]any{"SystemdCgroup": true, "ExtraRuntimes": found}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// facts are what is seen of it.
func (d distribution) facts(t *testing.T, containerd string) Facts {
	t.Helper()
	f := Facts{Root: File{Path: k3sRoot, Data: d.start(t), Exists: true}, Version: containerd, Distribution: names.DistributionK3s}
	for _, p := range Templates(names.DistributionK3s, k3sRoot) {
		file := File{Path: p}
		if d.template != nil && d.template.Path == p {
			file = *d.template
		}
		f.Templates = append(f.Templates, file)
	}
	return f
}

// k3sWant is what is wanted with the toolkit in a directory.
func k3sWant(dir string) Want {
	return Want{Handlers: []Handler{{Name: "nvidia", Binary: dir + "/nvidia-container-runtime", Annotations: true}, {Name: "nvidia-management", Binary: dir + "/nvidia-container-runtime.management"}}}
}

// TestTemplateSurvivesTheDistribution: what the distribution renders after our change
// is valid, gives every handler its binary, is what was rehearsed, and calls for no
// further change; and taking the change back gives the template that was.
func TestTemplateSurvivesTheDistribution(t *testing.T) {
	t.Parallel()
	const standard = "/usr/local/nvidia/toolkit"
	user := func(version int, text string) *File {
		return &File{Path: templateOf(k3sRoot, version), Data: []byte(text), Exists: true}
	}
	for name, tc := range map[string]struct {
		d          distribution
		containerd string
		dir        string
	}{
		"v3, no template":                 {distribution{version: 3, cdi: true}, "2.0.5-k3s1", standard},
		"v3, imports merged by table":     {distribution{version: 3, cdi: true, imports: true}, "2.0.5-k3s1", standard},
		"v2 with CDI, no template":        {distribution{version: 2, cdi: true}, "1.7.27-k3s1", standard},
		"v2, elsewhere, no template":      {distribution{version: 2}, "1.7.27-k3s1", "/opt/nvidia/toolkit"},
		"a package's runtime was found":   {distribution{version: 3, cdi: true, binaries: []string{"/usr/bin/nvidia-container-runtime"}}, "2.0.5-k3s1", standard},
		"template that calls the base":    {distribution{version: 3, cdi: true, template: user(3, "# mine\n{{ template \"base\" . -}}\n[debug]\nlevel = \"info\"")}, "2.0.5-k3s1", standard},
		"whole template, renders finds":   {distribution{version: 2, cdi: true, template: user(2, distribution{version: 2, cdi: true}.base())}, "1.7.11-k3s2", standard},
		"whole template, renders nothing": {distribution{version: 2, template: user(2, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n")}, "1.7.1-k3s1", standard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, want := tc.d, k3sWant(tc.dir)
			first, err := Decide(d.facts(t, tc.containerd), want)
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Steps) != 1 || first.Steps[0].Path != templateOf(k3sRoot, d.version) {
				t.Fatalf("steps %+v, want one on the template", first.Steps)
			}
			if err := Proves(first.Rendered, want.Handlers); err != nil {
				t.Errorf("the rehearsal: %v", err)
			}
			was := d.template
			d.template = &File{Path: first.Steps[0].Path, Data: content(t, first.Steps[0], was), Exists: true}
			d.binaries = append([]string{want.Handlers[0].Binary}, d.binaries...)
			f := d.facts(t, tc.containerd)
			if err := Proves(f.Root.Data, want.Handlers); err != nil {
				t.Errorf("what the distribution renders: %v\n%s", err, f.Root.Data)
			}
			second, err := Decide(f, want)
			if err != nil {
				t.Fatal(err)
			}
			if again := content(t, second.Steps[0], d.template); !bytes.Equal(again, d.template.Data) {
				t.Errorf("a second pass changes the template (-first +second):\n%s", cmp.Diff(string(d.template.Data), string(again)))
			}
			if was == nil {
				return
			}
			if back, _, err := (templateEditor{}).Revert(second.Steps[0].Edit.Args, d.template.Data); err != nil || !bytes.Equal(back, was.Data) {
				t.Errorf("taken back, the template reads %q, %v; want %q", back, err, was.Data)
			}
		})
	}
}

// content is what a step makes of a file.
func content(t *testing.T, s plan.Step, was *File) []byte {
	t.Helper()
	if s.Kind == plan.KindFile {
		return s.Content
	}
	if was == nil {
		t.Fatalf("step %+v edits a file that is not there", s)
	}
	out, err := Editors()[s.Edit.Name].Apply(s.Edit.Args, was.Data, true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRootIsNeverWritten: whatever a distribution's files are, no step touches what it
// renders.
func TestRootIsNeverWritten(t *testing.T) {
	t.Parallel()
	for _, containerd := range []string{"1.7.27-k3s1", "2.0.5-k3s1", "2.2.3-k3s1", ""} {
		for _, version := range []int{2, 3} {
			for _, imports := range []bool{false, true} {
				d := distribution{version: version, imports: imports, cdi: true}
				for _, dropIn := range []string{"", "/etc/elsewhere/99-nvidia.toml"} {
					w := k3sWant("/usr/local/nvidia/toolkit")
					w.DropIn = dropIn
					decision, err := Decide(d.facts(t, containerd), w)
					if err != nil {
						continue // refused: nothing is written at all
					}
					for _, s := range decision.Steps {
						if s.Path == k3sRoot {
							t.Errorf("containerd %q, version %d, imports %v, drop-in %q: step on %s", containerd, version, imports, dropIn, s.Path)
						}
					}
				}
			}
		}
	}
}

func TestDistributionRefuses(t *testing.T) {
	t.Parallel()
	byDefault := k3sWant("/usr/local/nvidia/toolkit")
	byDefault.Default = "nvidia"
	for name, tc := range map[string]struct {
		d          distribution
		containerd string
		want       Want
		reason     string
		text       string
	}{
		"default runtime by template":     {distribution{version: 3, cdi: true}, "2.0.5-k3s1", byDefault, fault.ReasonRuntimeUnsupported, "default-runtime: nvidia in /etc/rancher/k3s/config.yaml"},
		"no CDI, and found by itself":     {distribution{version: 2}, "1.7.27-k3s1", k3sWant("/usr/local/nvidia/toolkit"), fault.ReasonRuntimeUnsupported, "toolkit.installDir: /opt/nvidia"},
		"cannot call its own template":    {distribution{version: 2, cdi: true}, "1.7.2-k3s1", k3sWant("/usr/local/nvidia/toolkit"), fault.ReasonRuntimeUnsupported, "update it"},
		"unknown version":                 {distribution{version: 2, cdi: true}, "", k3sWant("/opt/nvidia/toolkit"), fault.ReasonRuntimeUnsupported, "update it"},
		"found, but we install elsewhere": {distribution{version: 3, cdi: true, binaries: []string{"/usr/bin/nvidia-container-runtime"}}, "2.0.5-k3s1", k3sWant("/opt/nvidia/toolkit"), fault.ReasonHandlerTaken, "leave toolkit.installDir at /usr/local/nvidia"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decide(tc.d.facts(t, tc.containerd), tc.want)
			f, ok := errors.AsType[*fault.Fault](err)
			if !ok || f.Reason != tc.reason || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %s with %q", err, tc.reason, tc.text)
			}
		})
	}
}

func TestKnowsBase(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.6.28-k3s1": false, "1.7.1-k3s1": false, "1.7.2": false, "1.7.3-k3s1": true, "1.7.27-k3s1": true, "2.0.5-k3s1": true, "v2.2.3-k3s1": true, "": false, "nonsense": false,
	} {
		if got := knowsBase(version); got != want {
			t.Errorf("knowsBase(%q) = %v", version, got)
		}
	}
}
