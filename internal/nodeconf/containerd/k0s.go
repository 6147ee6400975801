package containerd

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// k0sMark is the first line of a root that k0s writes itself; without it the file is
// the administrator's, and k0s leaves it alone.
const k0sMark = "# k0s_managed=true"

// managedByK0s says whether k0s writes a root.
func managedByK0s(root File) bool {
	line, _, _ := bytes.Cut(root.Data, []byte("\n"))
	return !root.Exists || string(bytes.TrimRight(line, "\r")) == k0sMark
}

// k0s decides for a root that k0s writes at each start. Its users put files into a
// directory beside it, and k0s restarts its containerd when one changes:
//
//   - since 1.36 (containerd 2) the root imports that directory, so that an ordinary
//     drop-in does;
//   - before, k0s merges what the files say about the CRI plugin, key by key, into one
//     file that the root imports. A version line is left out of ours: releases before
//     1.28 append the files as text, where a second one would be an error.
func (in files) k0s(f Facts, w Want, d Decision) (Decision, error) {
	if !f.Root.Exists {
		return d, unsupported(f, "has not written its configuration yet", "start it once; nothing was written")
	}
	if w.DropIn == "" {
		w.DropIn = path.Join(path.Dir(f.Root.Path), names.DistributionNamed(f.Distribution).DropInDir, path.Base(names.ContainerdDropInFile))
	}
	if in.nested {
		d, err := in.dropIn(f, w, d)
		if err == nil && len(d.Steps) > 1 {
			return Decision{}, unsupported(f, "does not import "+w.DropIn+", and writes the file that would have to", "name a file in RUNTIME_DROP_IN_CONFIG of spec.toolkit.env that it imports; nothing was written")
		}
		return d, err
	}
	in.forgetOurs(w)
	w = in.withoutTaken(w)
	tables, err := in.tables(w, d.NativeCDI, f.KubeletCgroupDriver, false)
	if err != nil {
		return d, err
	}
	content := templateHeader + "\n" + tables
	if d.Rendered, err = in.merged(content); err != nil {
		return d, err
	}
	d.Handlers, d.Notes = w.Handlers, append(d.Notes, in.takenNotes(w)...)
	d.Steps = append(d.Steps, plan.Step{
		Kind: plan.KindFile, Path: w.DropIn, Content: []byte(content),
		Why: "makes " + f.Distribution + " tell its containerd the handlers " + handlerNames(w),
	})
	return d, nil
}

// forgetOurs takes out of what k0s merged the handlers that came from our own file:
// the second decision must be the first.
func (in files) forgetOurs(w Want) {
	for _, t := range in.imported {
		cri, ok, err := t.cri()
		if err != nil || !ok {
			continue
		}
		runtimes := table(cri, "containerd", "runtimes")
		for _, h := range w.Handlers {
			if binary, _ := table(runtimes, h.Name, "options")["BinaryName"].(string); binary == h.Binary {
				delete(runtimes, h.Name)
			}
		}
	}
}

// merged is the configuration that k0s will make of what it has and our file.
func (in files) merged(content string) ([]byte, error) {
	ours, err := parse("", []byte(content))
	if err != nil {
		return nil, fmt.Errorf("our own tables: %w", err)
	}
	all := map[string]any{"version": int64(in.version)}
	for _, t := range slices.Concat([]tree{in.root}, in.imported) {
		top := maps.Clone(t.top)
		delete(top, "imports")
		all = deepMerge(all, top)
	}
	data, err := toml.Marshal(deepMerge(all, ours.top))
	if err != nil {
		return nil, fmt.Errorf("merging as k0s does: %w", err)
	}
	return data, nil
}
