package node

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// update rewrites what the hosts in test/hosts are expected to become.
var update = flag.Bool("update", false, "rewrite expected outputs")

// hostsDir holds whole hosts as text. In each archive the comment has directives
// (args:, crlf:, nonl:, symlink:), host/ is the host before, want.out is what diff
// prints about everything but the installed binaries, and want/ are the files of
// /etc and of k3s, RKE2 and MicroK8s after apply. Every host is then applied again (nothing may differ) and
// undone (it must be what it was to the byte).
const hostsDir = "../../../test/hosts"

func TestHosts(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(hostsDir, "*.txtar"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no hosts found: %v", err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testHost(t, file) })
	}
}

// hostCase is one unpacked archive.
type hostCase struct {
	t       *testing.T
	root    string
	payload string
	args    []string
	before  map[string]string
}

func testHost(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := unpack(t, archive)
	c.before = tree(t, c.root)
	out, exit := c.run("diff")
	got := &txtar.Archive{Comment: archive.Comment, Files: keep(archive, func(n string) bool { return !strings.HasPrefix(n, "want") })}
	got.Files = append(got.Files, txtar.File{Name: "want.out", Data: []byte(shown(out))})
	if exit == ExitError {
		if diff := cmp.Diff(c.before, tree(t, c.root)); diff != "" {
			t.Errorf("a refused host was touched (-before +after):\n%s", diff)
		}
	} else {
		got.Files = append(got.Files, c.applyTwice()...)
		c.undo()
	}
	compareArchive(t, file, archive, got)
}

// applyTwice applies and returns the files of /etc; the second time nothing may happen.
func (c *hostCase) applyTwice() []txtar.File {
	if out, exit := c.run("apply"); exit != ExitSame {
		c.t.Fatalf("apply ended with %d:\n%s", exit, out)
	}
	applied := tree(c.t, c.root)
	if out, exit := c.run("diff"); exit != ExitSame || strings.Contains(out, "/") && !strings.HasPrefix(out, "note:") {
		c.t.Errorf("after apply, diff ended with %d:\n%s", exit, out)
	}
	if out, exit := c.run("apply"); exit != ExitSame {
		c.t.Errorf("second apply ended with %d:\n%s", exit, out)
	}
	if diff := cmp.Diff(applied, tree(c.t, c.root)); diff != "" {
		c.t.Errorf("second apply changed the host (-first +second):\n%s", diff)
	}
	var files []txtar.File
	for name, entry := range applied {
		if (strings.HasPrefix(name, "etc/") || strings.HasPrefix(name, "var/lib/rancher/") || strings.HasPrefix(name, "var/snap/")) && strings.HasPrefix(entry, "-rw") {
			data, err := os.ReadFile(filepath.Join(c.root, name))
			if err != nil {
				c.t.Fatal(err)
			}
			files = append(files, txtar.File{Name: "want/" + name, Data: data})
		}
	}
	return files
}

// undo takes everything back and compares with the host before.
func (c *hostCase) undo() {
	if out, exit := c.run("undo"); exit != ExitSame {
		c.t.Fatalf("undo ended with %d:\n%s", exit, out)
	}
	if diff := cmp.Diff(c.before, tree(c.t, c.root)); diff != "" {
		c.t.Errorf("undo did not restore the host (-before +after):\n%s", diff)
	}
}

// run executes a toolkit subcommand and returns its output and exit status.
func (c *hostCase) run(sub string) (string, int) {
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"toolkit", sub, "--root", c.root, "--payload", c.payload}, c.args...))
	exit := Execute(cmd)
	return strings.ReplaceAll(out.String(), c.root, "ROOT"), exit
}

// unpack writes the archive's host and payload into temporary directories.
func unpack(t *testing.T, archive *txtar.Archive) *hostCase {
	dir := t.TempDir()
	c := &hostCase{t: t, root: filepath.Join(dir, "host"), payload: filepath.Join(dir, "payload")}
	for _, d := range []string{"host/etc", "host/usr/local", "host/var/lib", "payload"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, name := range []string{"nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime", "nvidia-runtime-shim"} {
		must(t, os.WriteFile(filepath.Join(c.payload, name), []byte("binary "+name+"\x00\n"), 0o755))
	}
	policy := "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec: {}\n"
	must(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600))
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "want") {
			continue
		}
		p := filepath.Join(dir, f.Name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, f.Data, 0o644))
	}
	c.args = []string{"--policy", filepath.Join(dir, "policy.yaml")}
	if _, err := os.Stat(filepath.Join(dir, "effective.toml")); err == nil {
		c.args = append(c.args, "--effective", filepath.Join(dir, "effective.toml"))
	}
	for line := range strings.SplitSeq(string(archive.Comment), "\n") {
		c.directive(line)
	}
	return c
}

// directive carries out one line of an archive's comment.
func (c *hostCase) directive(line string) {
	key, value, _ := strings.Cut(line, ": ")
	p := filepath.Join(c.root, value)
	switch key {
	case "args":
		c.args = append(c.args, strings.Fields(value)...)
	case "crlf":
		data, err := os.ReadFile(p)
		must(c.t, err)
		must(c.t, os.WriteFile(p, bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")), 0o644))
	case "nonl":
		data, err := os.ReadFile(p)
		must(c.t, err)
		must(c.t, os.WriteFile(p, bytes.TrimSuffix(data, []byte("\n")), 0o644))
	case "symlink":
		name, target, _ := strings.Cut(value, " -> ")
		p = filepath.Join(c.root, name)
		must(c.t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(c.t, os.Symlink(target, p))
	case "mode":
		name, _, _ := strings.Cut(value, " 0600")
		must(c.t, os.Chmod(filepath.Join(c.root, name), 0o600))
	}
}

// shown drops the installed binaries and their parents, which are the same on every host.
func shown(out string) string {
	var b strings.Builder
	skip := false
	for _, line := range strings.SplitAfter(out, "\n") {
		if !strings.HasPrefix(line, "    ") {
			fields := strings.Fields(line)
			skip = len(fields) > 2 && (strings.HasPrefix(fields[2], "/usr") || strings.HasPrefix(fields[2], "/opt/nvidia"))
		}
		if !skip {
			b.WriteString(line)
		}
	}
	return b.String()
}

// tree describes every path below dir: mode, size, link target and content.
func tree(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		desc := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			desc += " " + info.ModTime().Truncate(1000).String() + "\n" + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			desc += " -> " + target
		}
		out[rel] = desc
		return nil
	})
	must(t, err)
	return out
}

// keep returns the archive's files whose names satisfy f.
func keep(a *txtar.Archive, f func(string) bool) []txtar.File {
	var out []txtar.File
	for _, file := range a.Files {
		if f(file.Name) {
			out = append(out, file)
		}
	}
	return out
}

// compareArchive compares expected sections, or rewrites them with -update.
func compareArchive(t *testing.T, file string, want, got *txtar.Archive) {
	t.Helper()
	sections := func(a *txtar.Archive) map[string]string {
		out := map[string]string{}
		for _, f := range a.Files {
			if strings.HasPrefix(f.Name, "want") {
				out[f.Name] = strings.TrimSuffix(strings.ReplaceAll(string(f.Data), "\r\n", "<CRLF>\n"), "\n")
			}
		}
		return out
	}
	if *update {
		sortFiles(got)
		for i, f := range got.Files {
			if strings.HasPrefix(f.Name, "want") {
				got.Files[i].Data = bytes.ReplaceAll(f.Data, []byte("\r\n"), []byte("<CRLF>\n"))
			}
		}
		must(t, os.WriteFile(file, txtar.Format(got), 0o600))
		return
	}
	if diff := cmp.Diff(sections(want), sections(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// sortFiles puts inputs first, then expectations by name.
func sortFiles(a *txtar.Archive) {
	var in, out []txtar.File
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "want") {
			out = append(out, f)
		} else {
			in = append(in, f)
		}
	}
	for i := range out {
		for j := i + 1; j < len(out); j++ {
			if out[j].Name < out[i].Name {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	a.Files = append(in, out...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hostsPage lists the hosts for people: what is decided on each kind.
const hostsPage = "../../../docs/hosts.md"

const hostsHead = `# What is decided on which host

Each row is a whole host as text in ` + "`test/hosts/`" + `: what it is before, what ` + "`gpu-node toolkit diff`" + ` prints, what it is
after. Every one is applied, applied again (nothing may differ) and undone to the byte; one that is refused is not touched. The
page is made from them: ` + "`go test ./internal/cli/node -run Hosts -update`" + `.

| host | runtime | what it is | what is done |
|---|---|---|---|
`

// TestHostsAreDocumented: the page has a row for every host, with its result.
func TestHostsAreDocumented(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(hostsDir, "*.txtar"))
	must(t, err)
	page := hostsHead
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		must(t, err)
		what, rest, _ := strings.Cut(string(archive.Comment), "\n")
		_, version, _ := strings.Cut(rest, "--runtime-version containerd://")
		version, _, _ = strings.Cut(version, "\n")
		var out string
		for _, f := range archive.Files {
			if f.Name == "want.out" {
				out = string(f.Data)
			}
		}
		page += "| " + strings.TrimSuffix(filepath.Base(file), ".txtar") + " | " + orElse(version, "unknown") + " | " + what + " | " + result(out) + " |\n"
	}
	if *update {
		must(t, os.WriteFile(hostsPage, []byte(page), 0o644))
		return
	}
	got, err := os.ReadFile(hostsPage)
	must(t, err)
	if diff := cmp.Diff(page, string(got)); diff != "" {
		t.Errorf("the page is behind the hosts (-want +got), write it with -update:\n%s", diff)
	}
}

// result says in a few words what diff printed.
func result(out string) string {
	if text, refused := strings.CutPrefix(out, "gpu-node: "); refused {
		return "**refused**: " + strings.TrimSpace(strings.TrimPrefix(text, "deciding the runtime's configuration: "))
	}
	var done []string
	for line := range strings.SplitSeq(out, "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(line, " ") {
			continue
		}
		if op := f[1]; op == "file" || op == "edit" {
			done = append(done, op+" `"+f[2]+"`")
		}
	}
	return strings.Join(done, ", ")
}

// orElse is v, or def when v is empty.
func orElse(v, def string) string {
	if v == "" {
		return def
	}
	return v
}
