package containerd

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// runcType is the runtime type of our handlers: the shim that runs runc and
// everything that behaves like it.
const runcType = "io.containerd.runc.v2"

// notCopied are keys of the base runtime that are not carried over: what chooses
// another binary or shim, what we set ourselves, and annotations, which could let
// Pods ask for devices.
func notCopied(key string) bool {
	return slices.Contains([]string{"runtime_type", "runtime_path", "runtime_engine", "runtime_root", "options", "pod_annotations", "container_annotations"}, key)
}

// base is the runtime whose settings our handlers take over.
type base struct {
	settings map[string]any
	options  map[string]any
	found    bool // a file of the configuration defines it
}

// baseRuntime finds the daemon's own low-level runtime: the default one when it is
// of runc's type and not ours, else the one named runc.
func (in files) baseRuntime(w Want) base {
	cri := in.effectiveCRI()
	runtimes := table(cri, "containerd", "runtimes")
	candidates := []string{"runc"}
	if name, ok := table(cri, "containerd")["default_runtime_name"].(string); ok && !isOurs(w, name) {
		candidates = []string{name, "runc"}
	}
	for _, name := range candidates {
		rt := table(runtimes, name)
		if rt == nil || (rt["runtime_type"] != nil && rt["runtime_type"] != "" && rt["runtime_type"] != runcType) {
			continue
		}
		return base{settings: rt, options: table(rt, "options"), found: true}
	}
	return base{}
}

// isOurs says whether a handler's name is one that we write.
func isOurs(w Want, name string) bool {
	return slices.ContainsFunc(w.Handlers, func(h Handler) bool { return h.Name == name })
}

// tables renders the handlers' tables. withBase also writes the base runtime
// itself, for daemons where naming any runtime hides the built-in one.
func (in files) tables(w Want, native bool, cgroupDriver string, withBase bool) (string, error) {
	rt := in.baseRuntime(w)
	prefix := "plugins." + tableKey(criTable(in.version)) + ".containerd"
	var b strings.Builder
	if w.Default != "" {
		fmt.Fprintf(&b, "[%s]\ndefault_runtime_name = %s\n\n", prefix, quote(w.Default))
	}
	if withBase {
		in.writeRuntime(&b, prefix+".runtimes.runc", rt, "", false, cgroupDriver)
	}
	for _, h := range w.Handlers {
		if h.Binary == "" || h.Name == "" {
			return "", fmt.Errorf("handler %q has no binary", h.Name)
		}
		in.writeRuntime(&b, prefix+".runtimes."+tableKey(h.Name), rt, h.Binary, h.Annotations && !native, cgroupDriver)
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// writeRuntime renders one runtime with its options.
func (in files) writeRuntime(b *strings.Builder, name string, rt base, binary string, annotations bool, cgroupDriver string) {
	fmt.Fprintf(b, "[%s]\nruntime_type = %s\n", name, quote(runcType))
	if annotations {
		fmt.Fprintf(b, "container_annotations = [%s]\n", quote(names.CDIAnnotationPrefix+"*"))
	}
	writeKeys(b, rt.settings, notCopied)
	fmt.Fprintf(b, "\n[%s.options]\n", name)
	if binary != "" {
		fmt.Fprintf(b, "BinaryName = %s\n", quote(binary))
	}
	options := rt.options
	if !rt.found && cgroupDriver == "systemd" {
		options = map[string]any{"SystemdCgroup": true}
	}
	writeKeys(b, options, func(key string) bool { return key == "BinaryName" && binary != "" })
	b.WriteString("\n")
}

// writeKeys renders the keys of a table that say something, in order.
func writeKeys(b *strings.Builder, m map[string]any, skip func(string) bool) {
	for _, k := range sortedKeys(m) {
		v := m[k]
		if skip(k) || zero(v) || (k == "sandboxer" && v == "podsandbox") {
			continue
		}
		if s, ok := tomlValue(v); ok {
			fmt.Fprintf(b, "%s = %s\n", tableKey(k), s)
		}
	}
}

// tableKey renders a key, quoted when it must be.
func tableKey(k string) string {
	bare := k != ""
	for _, r := range k {
		bare = bare && (r == '-' || r == '_' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z'))
	}
	if bare {
		return k
	}
	return quote(k)
}

// takenNotes names handlers of ours that somebody else's file defines as well.
func (in files) takenNotes(w Want) []string {
	var out []string
	for _, h := range w.Handlers {
		if t, ok := in.definer(h.Name); ok {
			out = append(out, fmt.Sprintf("handler %q is also defined in %s; the drop-in takes precedence until it is undone", h.Name, in.where(t.path, h.Name)))
		}
	}
	return out
}

// definer returns the file that defines a handler.
func (in files) definer(handler string) (tree, bool) {
	for _, t := range in.all() {
		cri, ok, err := t.cri()
		if err == nil && ok && table(cri, "containerd", "runtimes", handler) != nil {
			return t, true
		}
	}
	return tree{}, false
}

// where returns file:line of the table header of a handler, as far as it can be found.
func (in files) where(file, handler string) string {
	data := in.rootFile.Data
	for _, f := range in.raw {
		if f.Path == file {
			data = f.Data
		}
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		header := strings.TrimSpace(string(line))
		if strings.HasPrefix(header, "[") && (strings.Contains(header, "runtimes."+handler+"]") || strings.Contains(header, "runtimes."+quote(handler)+"]")) {
			return file + ":" + strconv.Itoa(i+1)
		}
	}
	return file
}

// inFile decides for a daemon whose imports replace whole plugin tables: our
// tables are appended to the file whose CRI table counts.
func (in files) inFile(f Facts, w Want, d Decision) (Decision, error) {
	for _, h := range w.Handlers {
		if t, ok := in.definer(h.Name); ok {
			return d, &fault.Fault{
				Reason: fault.ReasonHandlerTaken, Where: in.where(t.path, h.Name),
				Message: fmt.Sprintf("somebody else defines the handler %q, and this containerd (%s) cannot be told otherwise without changing it", h.Name, orUnknown(f.Version)),
				Remedy:  "remove that table, or set toolkit.enabled: false to keep that configuration",
			}
		}
	}
	if w.Default != "" {
		return d, &fault.Fault{
			Reason: fault.ReasonRuntimeUnsupported, Where: f.Root.Path, Message: "making our handler the default needs containerd 2.1 or later (this is " + orUnknown(f.Version) + ")",
			Remedy: "leave NVIDIA_RUNTIME_SET_AS_DEFAULT unset and use runtimeClassName, or the device plugin's CDI devices",
		}
	}
	target := f.Root
	defines := false
	for i, t := range in.all() {
		cri, ok, err := t.cri()
		if err != nil {
			return d, err
		}
		if !ok {
			continue
		}
		defines = table(cri, "containerd", "runtimes") != nil
		if i > 0 {
			target = in.raw[i-1]
		}
	}
	writer := in
	if target.Path != f.Root.Path {
		i := slices.IndexFunc(in.raw, func(o File) bool { return o.Path == target.Path })
		if v, err := in.imported[i].version(); err == nil {
			writer.version = v
		}
	}
	tables, err := writer.tables(w, d.NativeCDI, f.KubeletCgroupDriver, !defines)
	if err != nil {
		return d, err
	}
	d.Handlers = w.Handlers
	d.Steps = append(d.Steps, plan.Step{
		Kind: plan.KindEdit, Path: target.Path, Why: "tells containerd the handlers " + handlerNames(w),
		Edit: &plan.Edit{Name: EditBlock, Args: map[string]string{argTables: tables, argVersion: strconv.Itoa(in.version)}},
	})
	if !defines {
		d.Notes = append(d.Notes, "no configuration file defines a runtime: runc is written out beside our handlers, because naming one hides the built-in one")
	}
	return d, nil
}

// orUnknown returns the version, or the word unknown.
func orUnknown(v string) string {
	if v == "" {
		return "unknown version"
	}
	return v
}
