package inspector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
	"gpu-operator/internal/nodeconf/containerd"
	"gpu-operator/internal/plan"
)

// scanEvidence reads what the operands left; only this boot's counts.
func (s *Scanner) scanEvidence(n *facts.Node) {
	files, err := list(s.roots.Host, names.RunDir)
	if err != nil {
		return
	}
	for _, f := range files {
		p := path.Join(names.RunDir, f)
		if !strings.HasSuffix(f, names.EvidenceSuffix) || strings.HasPrefix(f, ".") {
			continue
		}
		data, err := read(s.roots.Host, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		e, perr := facts.ParseEvidence(data)
		switch {
		case err != nil:
			n.BadEvidence = append(n.BadEvidence, fmt.Sprintf("%s: %v", p, err))
		case perr != nil:
			n.BadEvidence = append(n.BadEvidence, fmt.Sprintf("%s: %v", p, perr))
		case e.Step+names.EvidenceSuffix != f:
			n.BadEvidence = append(n.BadEvidence, fmt.Sprintf("%s: it is about step %q", p, e.Step))
		case e.BootID != n.Identity.BootID:
			n.StaleEvidence = append(n.StaleEvidence, fmt.Sprintf("%s: boot %s", p, e.BootID))
		default:
			n.Evidence = append(n.Evidence, e)
		}
	}
}

// scanCDI reads the CDI specs of NVIDIA's kinds.
func (s *Scanner) scanCDI(n *facts.Node) {
	for _, dir := range []string{names.CDIStaticDir, names.CDIDir} {
		files, _ := list(s.roots.Host, dir)
		for _, f := range files {
			if ext := path.Ext(f); ext != ".yaml" && ext != ".json" || strings.HasPrefix(f, ".") {
				continue
			}
			p := path.Join(dir, f)
			data, err := read(s.roots.Host, p)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			c, perr := s.parseCDI(p, data)
			if err = cmp.Or(err, perr); err != nil {
				n.BadCDI = append(n.BadCDI, fmt.Sprintf("%s: %v", p, err))
				continue
			}
			if facts.IsNVIDIAKind(c.Kind) {
				n.CDI = append(n.CDI, facts.CDIFile{CDI: c, Path: p, Missing: s.firstMissing(c.HostPaths)})
			}
		}
	}
}

// parsedCDI is a CDI spec with the bytes that it was read from.
type parsedCDI struct {
	data []byte
	spec facts.CDI
}

// parseCDI reads a CDI spec again only when its bytes changed.
func (s *Scanner) parseCDI(p string, data []byte) (facts.CDI, error) {
	if known, ok := s.specs[p]; ok && bytes.Equal(known.data, data) {
		return known.spec, nil
	}
	delete(s.specs, p)
	c, err := facts.ParseCDI(data)
	if err == nil {
		s.specs[p] = parsedCDI{data: data, spec: c}
	}
	return c, err
}

// firstMissing returns the first path that is not on the host.
func (s *Scanner) firstMissing(paths []string) string {
	for _, p := range paths {
		if !there(s.roots.Host, p) {
			return p
		}
	}
	return ""
}

// scanLedger compares what the ledger says with what is on disk.
func (s *Scanner) scanLedger(n *facts.Node) {
	ledger, err := s.roots.Host.ReadLedger()
	if err != nil {
		n.LedgerError = err.Error()
		return
	}
	for _, e := range ledger.Entries {
		seen, err := s.observe(e)
		if err != nil {
			n.LedgerError = err.Error()
			continue
		}
		n.HostChanges = append(n.HostChanges, v1alpha1.HostChange{
			Path: e.Path, Hash: e.Wrote.Hash, Action: e.Action(), Step: e.Group, Why: e.Why,
			State: e.Status(seen, containerd.Editors()),
		})
		if e.Kind == plan.KindFile {
			n.Files = append(n.Files, facts.HostFile{Path: e.Path, Hash: seen.Hash})
		}
	}
	slices.SortFunc(n.HostChanges, func(a, b v1alpha1.HostChange) int { return strings.Compare(a.Path, b.Path) })
}

// cachedState is a file's state with the identity that it was hashed under.
type cachedState struct {
	id    fileID
	state plan.State
}

// fileID changes whenever a file's content can have changed. Times alone could be
// set back; the change time cannot.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
	mode         uint32
}

// observe returns the state of an entry's path. Hashing the installed binaries at
// each look would be the inspector's largest cost, so a file whose identity did not
// change is not read again.
func (s *Scanner) observe(e plan.Entry) (plan.State, error) {
	id, err := s.identify(e.Path)
	cached, ok := s.hashes[e.Path]
	if err == nil && ok && cached.id == id {
		return cached.state, nil
	}
	delete(s.hashes, e.Path)
	seen, oerr := s.roots.Host.Observe([]plan.Key{{Path: e.Path, Whole: e.Kind == plan.KindEdit}})
	if oerr != nil {
		return plan.State{}, oerr
	}
	st := seen.Paths[e.Path]
	if err == nil && st.Type == plan.TypeFile {
		if e.Kind != plan.KindEdit {
			st.Content = nil
		}
		s.hashes[e.Path] = cachedState{id: id, state: st}
	}
	return st, nil
}

// identify returns the identity of the file at a path.
func (s *Scanner) identify(p string) (fileID, error) {
	f, err := s.roots.Host.Open(p)
	if err != nil {
		return fileID{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fileID{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, fmt.Errorf("identifying %q: no stat data", p)
	}
	return fileID{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, mode: st.Mode}, nil
}
