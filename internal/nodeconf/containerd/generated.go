package containerd

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// A distribution such as k3s writes the daemon's configuration at each start, from a
// template of its own or of the user. What counts there:
//
//   - the file itself is output: an edit is gone after the next start, so it is never
//     written, only read;
//   - the rendered file imports <version>.toml.d/*.toml next to it (releases since
//     2025): where the daemon merges imports key by key, a drop-in there is all;
//   - else the user's template is extended: by text, since it is none of TOML, after a
//     call of the distribution's own template, so that registries, CNI and everything
//     else of a later release stay as the distribution renders them;
//   - at each start the distribution looks for NVIDIA's runtime itself and, where it
//     finds one, renders the handler "nvidia" for it: a template that defines it too
//     would be a TOML error, and the node's end at its next start.

// Templates returns where a distribution looks for the user's template of a root
// file, in the order in which it takes the first that exists; nil where there is none.
func Templates(distribution, root string) []string {
	var out []string
	for _, name := range names.DistributionNamed(distribution).Templates {
		out = append(out, path.Join(path.Dir(root), name))
	}
	return out
}

// templateOf is the template from which k3s and RKE2 render a root of a version.
func templateOf(root string, version int) string {
	all := Templates(names.DistributionK3s, root)
	if version >= 3 {
		return all[0]
	}
	return all[1]
}

// baseCall is a template's call of the distribution's own one.
var baseCall = regexp.MustCompile(`\{\{-?\s*template\s+"base"\s`)

// rendersFound is a word that every template has which renders the runtimes that the
// distribution found.
const rendersFound = "ExtraRuntimes"

// foundHandler is the handler that they render for it.
const foundHandler = "nvidia"

// generated decides for a root file that a distribution writes.
func (in files) generated(f Facts, w Want, d Decision) (Decision, error) {
	if !f.Root.Exists {
		return d, unsupported(f, "has not written its configuration yet", "start it once; nothing was written")
	}
	if in.nested {
		covered, err := in.dropIn(f, w, d)
		if err != nil {
			return d, err
		}
		if len(covered.Steps) == 1 { // the drop-in alone: an import reads it already
			covered.Notes = nil // who renders what is the distribution's business
			return covered, nil
		}
	}
	if w.Default != "" {
		return d, unsupported(f, "chooses the default runtime itself", fmt.Sprintf("set default-runtime: %s in /etc/rancher/%s/config.yaml instead", w.Default, f.Distribution))
	}
	return in.template(f, in.withoutTaken(w), d)
}

// template decides for a distribution whose rendered file reads no drop-in of ours.
func (in files) template(f Facts, w Want, d Decision) (Decision, error) {
	file := File{Path: templateOf(f.Root.Path, in.version)}
	for _, t := range f.Templates {
		if t.Path == file.Path {
			file = t
		}
	}
	bare, _, err := templateEditor{}.Revert(nil, file.Data)
	if err != nil {
		return d, fmt.Errorf("reading %q: %w", file.Path, err)
	}
	own := !file.Exists || bytes.HasPrefix(file.Data, []byte(templateHeader))
	if own && !knowsBase(f.Version) {
		return d, unsupported(f, "cannot extend its own template before containerd 1.7.3 (this is "+orUnknown(f.Version)+")", "update it: releases since September 2023 can; nothing was written")
	}
	finds := own || baseCall.Match(bare) || bytes.Contains(bare, []byte(rendersFound))
	if err := in.refuseFound(f, w, finds, d.NativeCDI); err != nil {
		return d, err
	}
	written, err := in.toWrite(f, w, finds)
	if err != nil {
		return d, err
	}
	tables, err := in.tables(written, d.NativeCDI, f.KubeletCgroupDriver, false)
	if err != nil {
		return d, err
	}
	if d.Rendered, err = in.rendered(f, w, d.NativeCDI); err != nil {
		return d, err
	}
	d.Handlers = w.Handlers
	why := "makes " + f.Distribution + " tell its containerd the handlers " + handlerNames(w)
	if own {
		content := templateHeader + "{{ template \"base\" . }}\n\n" + templateBlock(tables) + "\n"
		d.Steps = append(d.Steps, plan.Step{Kind: plan.KindFile, Path: file.Path, Content: []byte(content), Why: why})
		return d, nil
	}
	d.Steps = append(d.Steps, plan.Step{
		Kind: plan.KindEdit, Path: file.Path, Why: why,
		Edit: &plan.Edit{Name: EditTemplate, Args: map[string]string{argTables: tables}},
	})
	return d, nil
}

// isFound says whether a handler is one that the distribution renders by itself once
// our binary is in place.
func isFound(h Handler) bool {
	return h.Name == foundHandler && path.Dir(h.Binary) == names.FoundRuntimeDirs()[0]
}

// refuseFound refuses a handler that the distribution would render without what it
// needs: where the daemon does not inject CDI devices, their annotations must reach
// our binary.
func (in files) refuseFound(f Facts, w Want, finds, native bool) error {
	if !finds || native || !slices.ContainsFunc(w.Handlers, func(h Handler) bool { return isFound(h) && h.Annotations }) {
		return nil
	}
	return unsupported(f, fmt.Sprintf("finds our runtime itself and renders the handler %q for it without container_annotations, and its containerd (%s) does not inject CDI devices", foundHandler, orUnknown(f.Version)),
		"set toolkit.installDir: /opt/nvidia, where "+f.Distribution+" does not look, or update it to a release with containerd 2; nothing was written")
}

// toWrite is what the template must define: all handlers but the one that the
// distribution renders by itself once our binary is in place.
func (in files) toWrite(f Facts, w Want, finds bool) (Want, error) {
	out := w
	out.Handlers = slices.DeleteFunc(slices.Clone(w.Handlers), func(h Handler) bool {
		return finds && isFound(h)
	})
	for _, h := range out.Handlers {
		t, taken := in.definer(h.Name)
		if !taken {
			continue
		}
		return out, &fault.Fault{
			Reason: fault.ReasonHandlerTaken, Where: in.where(t.path, h.Name),
			Message: fmt.Sprintf("%s or its template defines the handler %q already, and a table cannot be written twice", f.Distribution, h.Name),
			Remedy:  "leave toolkit.installDir at " + names.ToolkitInstallDir + ", where " + f.Distribution + " finds our runtime itself, or take that table out of the template",
		}
	}
	return out, nil
}

// rendered is what the distribution will write once the template is in place and our
// binaries are found: for the rehearsal.
func (in files) rendered(f Facts, w Want, native bool) ([]byte, error) {
	bare, _, err := blockEditor{}.Revert(nil, f.Root.Data)
	if err != nil {
		return nil, err
	}
	missing := w
	missing.Handlers = nil
	for _, h := range w.Handlers {
		if _, has := in.definer(h.Name); !has {
			missing.Handlers = append(missing.Handlers, h)
			continue
		}
		for _, dir := range names.FoundRuntimeDirs()[1:] { // ours comes first in the distribution's search
			bare = bytes.ReplaceAll(bare, []byte(quote(path.Join(dir, path.Base(h.Binary)))), []byte(quote(h.Binary)))
		}
	}
	if len(missing.Handlers) == 0 {
		return bare, nil
	}
	tables, err := in.tables(missing, native, f.KubeletCgroupDriver, false)
	return append(bytes.TrimRight(slices.Clone(bare), "\n"), []byte("\n\n"+tables)...), err
}

// knowsBase says whether a release of the distribution can render its own template
// inside of the user's: since September 2023, when its containerd was 1.7.3. The
// version reads 1.7.3-k3s1.
func knowsBase(version string) bool {
	major, minor, ok := majorMinor(version)
	if !ok || major != 1 || minor != 7 {
		return ok && (major > 1 || major == 1 && minor > 7)
	}
	_, patch, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(version, "v"), "1.7"), ".")
	digits := strings.IndexFunc(patch+"-", func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.Atoi(patch[:digits])
	return err == nil && n >= 3
}

// unsupported is the fault of a distribution that cannot be configured.
func unsupported(f Facts, message, remedy string) error {
	return &fault.Fault{Reason: fault.ReasonRuntimeUnsupported, Where: f.Root.Path, Message: f.Distribution + " " + message, Remedy: remedy}
}

// templateHeader starts a template that is ours as a whole.
const templateHeader = "# Written by gpu-operator; changes made here are overwritten.\n"

// templateBlock is our part of a template. The markers are those of a block in a
// configuration file: rendered, they tell our tables apart there too.
func templateBlock(tables string) string {
	return blockBegin + "\n" + strings.TrimRight(tables, "\n") + "\n" + blockEnd
}

// templateEditor appends args[tables] between the markers to a template: text, of
// which nothing else is understood or touched.
type templateEditor struct{}

// Apply implements plan.Editor.
func (templateEditor) Apply(args map[string]string, prev []byte, _ bool) ([]byte, error) {
	bare, _, err := templateEditor{}.Revert(args, prev)
	if err != nil {
		return nil, err
	}
	eol := lineEnd(bare)
	body := strings.ReplaceAll(templateBlock(args[argTables]), "\n", eol)
	if len(bare) > 0 && !bytes.HasSuffix(bare, []byte("\n")) {
		return splice(bare, len(bare), eol+body), nil
	}
	return splice(bare, len(bare), body+eol), nil
}

// Revert implements plan.Editor.
func (templateEditor) Revert(args map[string]string, cur []byte) ([]byte, bool, error) {
	return blockEditor{}.Revert(args, cur)
}
