package containerd

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// File is a configuration file as it lies on disk.
type File struct {
	// Path is absolute, as the host sees it.
	Path string
	// Data are its bytes.
	Data []byte
	// Exists is false when there is no such file.
	Exists bool
}

// Facts are what is known of a node's containerd.
type Facts struct {
	// Root is the daemon's configuration file.
	Root File
	// Imported are the files that the root imports, directly or not, in the order
	// in which containerd loads them.
	Imported []File
	// Version is the daemon's version (2.4.2); empty when unknown.
	Version string
	// Dump is the daemon's own print of its effective configuration; empty when there is none.
	Dump []byte
	// KubeletCgroupDriver is systemd, cgroupfs, or empty when unknown.
	KubeletCgroupDriver string
	// Distribution is the Kubernetes distribution whose containerd it is (k3s, rke2,
	// k0s, microk8s); empty for an ordinary one.
	Distribution string
	// Templates are the distribution's templates of the root, as Templates lists
	// them; Exists tells which there are.
	Templates []File
}

// Handler is a runtime handler that is wanted.
type Handler struct {
	// Name of the handler, as RuntimeClasses name it.
	Name string
	// Binary is the OCI runtime, as the host sees it.
	Binary string
	// Annotations lets the device plugin's CDI annotations reach the binary, where
	// the daemon does not inject CDI devices itself.
	Annotations bool
	// Alias says that the handler is another name of a former one: where somebody
	// else defines it and cannot be overridden, theirs stays.
	Alias bool
}

// Want is what the policy asks for.
type Want struct {
	// Handlers in the order in which they are written.
	Handlers []Handler
	// DropIn is the drop-in file to use; empty: derived from the root's imports.
	DropIn string
	// Default is the handler to make the default; empty leaves the default alone.
	Default string
}

// Decision is the desired configuration.
type Decision struct {
	// Steps are the file steps, drop-in before the edit that makes it count.
	Steps []plan.Step
	// Handlers are those that the daemon will know as ours.
	Handlers []Handler
	// NativeCDI says that containerd itself injects CDI devices; the handlers then
	// must not do it a second time.
	NativeCDI bool
	// LowLevel is the binary of the daemon's own low-level runtime when its
	// configuration names one; empty means runc from the PATH.
	LowLevel string
	// Rendered is what the root will read like once a distribution has rendered it
	// anew; nil where the root is no output.
	Rendered []byte
	// Notes are things a person should know, in words.
	Notes []string
}

// withoutTaken leaves out aliases that somebody else defines.
func (in files) withoutTaken(w Want) Want {
	w.Handlers = slices.DeleteFunc(slices.Clone(w.Handlers), func(h Handler) bool {
		_, taken := in.definer(h.Name)
		return h.Alias && taken
	})
	return w
}

// files is the parsed configuration without anything of ours.
type files struct {
	root     tree
	rootFile File
	imported []tree
	raw      []File // imported, same order
	version  int    // literal of the root; 0: none
	nested   bool   // the daemon merges imports key by key
	dump     *tree
}

// Decide computes the desired configuration. It refuses, with a reason and a
// remedy, what cannot be done without touching keys of somebody else.
func Decide(f Facts, w Want) (Decision, error) {
	in, err := load(f, w)
	if err != nil {
		return Decision{}, err
	}
	if err := in.refuseDisabledCRI(); err != nil {
		return Decision{}, err
	}
	d := Decision{NativeCDI: in.nativeCDI(f.Version)}
	d.LowLevel, _ = in.baseRuntime(w).options["BinaryName"].(string)
	switch {
	case names.DistributionNamed(f.Distribution).Finds:
		return in.generated(f, w, d)
	case f.Distribution == names.DistributionMicroK8s:
		return in.snap(f, in.withoutTaken(w), d)
	case f.Distribution == names.DistributionK0s && managedByK0s(f.Root):
		return in.k0s(f, w, d)
	case in.nested:
		return in.dropIn(f, w, d)
	}
	return in.inFile(f, in.withoutTaken(w), d)
}

// load parses the files and takes out what is ours, so that a second run decides
// on the same input as the first.
func load(f Facts, w Want) (files, error) {
	in := files{rootFile: f.Root, nested: mergesNested(f)}
	bare, _, err := blockEditor{}.Revert(nil, f.Root.Data)
	if err != nil {
		return in, fmt.Errorf("reading %q: %w", f.Root.Path, err)
	}
	if in.root, err = parse(f.Root.Path, bare); err != nil {
		return in, err
	}
	if in.version, err = in.root.version(); err != nil {
		return in, err
	}
	for _, file := range f.Imported {
		if file.Path == w.DropIn || path.Base(file.Path) == path.Base(names.ContainerdDropInFile) {
			continue
		}
		data, _, err := blockEditor{}.Revert(nil, file.Data)
		if err != nil {
			return in, fmt.Errorf("reading %q: %w", file.Path, err)
		}
		t, err := parse(file.Path, data)
		if err != nil {
			return in, err
		}
		in.imported = append(in.imported, t)
		in.raw = append(in.raw, file)
	}
	if len(f.Dump) > 0 {
		t, err := parse("effective configuration", f.Dump)
		if err != nil {
			return in, err
		}
		in.dump = &t
	}
	if in.fresh() {
		in.version = freshVersionFor(f.Version)
	}
	return in, nil
}

// fresh says that the root has no key of anybody: it is missing, empty or only comments.
func (in files) fresh() bool {
	for k := range in.root.top {
		if k != "version" && k != "imports" {
			return false
		}
	}
	_, has := in.root.top["version"]
	return !has
}

// freshVersionFor is the configuration version of a file that we begin.
func freshVersionFor(daemon string) int {
	if major, _, ok := majorMinor(daemon); ok && major >= 2 {
		return 3
	}
	return 2
}

// mergesNested says whether the daemon merges imports key by key (since 2.1). A
// version 4 file tells so by itself; anything else unknown is taken as not.
func mergesNested(f Facts) bool {
	if major, minor, ok := majorMinor(f.Version); ok {
		return major > 2 || (major == 2 && minor >= 1)
	}
	t, err := parse(f.Root.Path, f.Root.Data)
	if err != nil {
		return false
	}
	v, err := t.version()
	return err == nil && v >= 4
}

// majorMinor reads the first two numbers of a version.
func majorMinor(v string) (major, minor int, ok bool) {
	first, rest, dotted := strings.Cut(strings.TrimPrefix(v, "v"), ".")
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	major, errMajor := strconv.Atoi(first)
	minor, errMinor := strconv.Atoi(rest[:digits])
	return major, minor, dotted && errMajor == nil && errMinor == nil
}

// all returns root and imports in load order.
func (in files) all() []tree { return append([]tree{in.root}, in.imported...) }

// refuseDisabledCRI refuses a containerd whose CRI plugin is off: no kubelet can use it.
func (in files) refuseDisabledCRI() error {
	for _, t := range in.all() {
		list, _ := t.top["disabled_plugins"].([]any)
		for _, p := range list {
			if name, _ := p.(string); slices.Contains([]string{"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}, name) {
				return &fault.Fault{
					Reason: fault.ReasonRuntimeUnsupported, Where: t.path, Message: fmt.Sprintf("disabled_plugins holds %q: this containerd serves no kubelet", name),
					Remedy: "remove it from disabled_plugins, or name the file of the containerd that serves the kubelet in CONTAINERD_CONFIG of spec.toolkit.env",
				}
			}
		}
	}
	return nil
}

// effectiveCRI is the merged CRI table of the files, and of the dump below them.
func (in files) effectiveCRI() map[string]any {
	merged := map[string]any{}
	for _, t := range in.all() {
		cri, ok, err := t.cri()
		if err != nil || !ok {
			continue
		}
		if in.nested {
			merged = deepMerge(merged, cri)
		} else {
			merged = cri
		}
	}
	if in.dump == nil {
		return merged
	}
	dumped, _, err := in.dump.cri()
	if err != nil {
		return merged
	}
	return deepMerge(dumped, merged)
}

// nativeCDI says whether the daemon injects CDI devices itself: from 2.0 on
// unless it is switched off, in 1.7 only when it is switched on.
func (in files) nativeCDI(daemon string) bool {
	value, set := in.effectiveCRI()["enable_cdi"].(bool)
	major, minor, known := majorMinor(daemon)
	switch {
	case !known && in.version >= 3, known && major >= 2:
		return !set || value
	case known && major == 1 && minor >= 7:
		return set && value
	}
	return false
}

// dropIn decides for a daemon that merges imports key by key.
func (in files) dropIn(f Facts, w Want, d Decision) (Decision, error) {
	file, pattern, err := in.place(w.DropIn)
	if err != nil {
		return d, err
	}
	tables, err := in.tables(w, d.NativeCDI, f.KubeletCgroupDriver, false)
	if err != nil {
		return d, err
	}
	content := "# Written by gpu-operator; changes made here are overwritten.\n"
	if in.version > 0 {
		content += "version = " + strconv.Itoa(in.version) + "\n"
	}
	d.Handlers, d.Notes = w.Handlers, append(d.Notes, in.takenNotes(w)...)
	d.Steps = append(d.Steps, plan.Step{
		Kind: plan.KindFile, Path: file, Content: []byte(content + "\n" + tables),
		Why: "tells containerd the handlers " + handlerNames(w),
	})
	if pattern == "" {
		return d, nil
	}
	d.Steps = append(d.Steps, plan.Step{
		Kind: plan.KindEdit, Path: f.Root.Path, Why: "makes containerd read " + file,
		Edit: &plan.Edit{Name: EditImports, Args: map[string]string{argPattern: pattern, argVersion: strconv.Itoa(in.version)}},
	})
	return d, nil
}

// place chooses the drop-in file, and the pattern that the root must import for
// it to count ("" when it counts already).
func (in files) place(wanted string) (file, pattern string, err error) {
	var patterns []string
	for _, t := range in.all() {
		list, err := t.imports()
		if err != nil {
			return "", "", err
		}
		for _, p := range list {
			if !path.IsAbs(p) {
				p = path.Join(path.Dir(t.path), p)
			}
			patterns = append(patterns, p)
		}
	}
	ours := ownPattern(wanted)
	patterns = slices.DeleteFunc(patterns, func(p string) bool { return p == ours })
	file = wanted
	if file == "" {
		file = names.ContainerdDropInFile
		if !slices.ContainsFunc(patterns, covers(file)) {
			file = existingDir(patterns, file)
		}
	}
	if slices.ContainsFunc(patterns, covers(file)) {
		return file, "", nil
	}
	return file, ownPattern(file), nil
}

// ownPattern is the import that reads our drop-in and nothing else; being a
// pattern, it does no harm when the file is gone.
func ownPattern(file string) string {
	if file == "" {
		file = names.ContainerdDropInFile
	}
	return strings.TrimSuffix(file, ".toml") + "*.toml"
}

// covers returns a function that says whether an import pattern reads file.
func covers(file string) func(string) bool {
	return func(pattern string) bool {
		ok, err := path.Match(path.Clean(pattern), file)
		return err == nil && ok
	}
}

// existingDir puts the drop-in where an import already looks, so that the root
// file needs no edit; def when no import is a pattern that would match.
func existingDir(patterns []string, def string) string {
	for _, p := range patterns {
		dir := path.Dir(p)
		candidate := path.Join(dir, path.Base(def))
		if strings.Contains(path.Base(p), "*") && !strings.ContainsAny(dir, "*?[") && covers(candidate)(p) {
			return candidate
		}
	}
	return def
}

// handlerNames lists the handlers for people.
func handlerNames(w Want) string {
	var out []string
	for _, h := range w.Handlers {
		out = append(out, h.Name)
	}
	return strings.Join(out, ", ")
}
