package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// ledgerLimit bounds the size of a ledger file in bytes.
const ledgerLimit = 64 << 20

// Payload opens the files of our own image that are installed on hosts.
type Payload interface {
	// OpenPayload opens a file by the name in plan.Source.
	OpenPayload(name string) (io.ReadCloser, error)
}

// Runner carries out what is no file: modules and units.
type Runner interface {
	// LoadModule loads a kernel module.
	LoadModule(name string) error
	// StartUnit starts a systemd unit.
	StartUnit(name string) error
}

// Session is the exclusive right to change a host.
type Session struct {
	root    *Root
	ledger  plan.Ledger
	payload Payload
	runner  Runner
	// failpoint is called between any two effects; tests end the run in it.
	failpoint func(point string)
}

// Options of a Session.
type Options struct {
	// Payload is where large content comes from; nil when no change needs it.
	Payload Payload
	// Runner carries out module and unit steps; nil refuses them.
	Runner Runner
	// Failpoint is called between any two effects with the name of the point.
	Failpoint func(point string)
}

// ReadLedger reads the host's ledger without a lock; a missing file is an empty ledger.
func (r *Root) ReadLedger() (plan.Ledger, error) {
	data, err := r.ReadFile(names.LedgerFile, ledgerLimit)
	if missing(err) {
		return plan.Ledger{Version: plan.LedgerVersion}, nil
	}
	if err == nil {
		var l plan.Ledger
		if l, err = plan.ParseLedger(data); err == nil {
			return l, nil
		}
	}
	return plan.Ledger{}, &fault.Fault{
		Reason: fault.ReasonLedgerInvalid, Where: names.LedgerFile, Message: "the record of host changes cannot be read", Err: err,
		Remedy: "nothing is changed on this host until the file is restored or removed",
	}
}

// Apply carries out changes in a session of their own: under the host's lock, from
// Begin to End.
func (r *Root) Apply(cs plan.Changes, o Options) error {
	s, err := r.Begin(o)
	if err != nil {
		return err
	}
	_, err = s.Apply(cs)
	if endErr := s.End(); err == nil {
		err = endErr
	}
	return err
}

// Begin takes the host's lock, reads the ledger and removes half-written files
// that a crash left behind. A lock that another process holds is a fault.
func (r *Root) Begin(o Options) (*Session, error) {
	if err := unix.Flock(r.fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &fault.Fault{Reason: fault.ReasonHostLocked, Where: r.dir, Message: "another process changes this host now", Remedy: "try again when it is done"}
		}
		return nil, fmt.Errorf("locking host root %q: %w", r.dir, err)
	}
	l, err := r.ReadLedger()
	if err != nil {
		_ = unix.Flock(r.fd, unix.LOCK_UN)
		return nil, err
	}
	s := &Session{root: r, ledger: l, payload: o.Payload, runner: o.Runner, failpoint: o.Failpoint}
	if s.failpoint == nil {
		s.failpoint = func(string) {}
	}
	for _, p := range []string{names.StateDir, names.LedgerFile, blobPath("")} {
		s.sweep(p)
	}
	for _, e := range l.Entries {
		s.sweep(e.Path)
	}
	return s, nil
}

// End gives the lock back.
func (s *Session) End() error { return unix.Flock(s.root.fd, unix.LOCK_UN) }

// Ledger is what the host's ledger says now.
func (s *Session) Ledger() plan.Ledger { return s.ledger }

// Apply carries the changes out in order and stops at the first that fails; what
// was done until then stands in the ledger. Restarts are not carried out here:
// they are returned, because only the caller can prove that the daemon came back.
func (s *Session) Apply(cs plan.Changes) (restarts plan.Changes, err error) {
	for _, c := range cs {
		if c.Kind == plan.KindRestart {
			if c.Effective() {
				restarts = append(restarts, c)
			}
			continue
		}
		if err := s.applyOne(c); err != nil {
			return restarts, err
		}
	}
	return restarts, s.forgetIfEmpty()
}

// applyOne carries one change out: record, compare, write, verify.
func (s *Session) applyOne(c plan.Change) error {
	if !c.Effective() {
		if c.Drop {
			return s.save(s.ledger.Done(c))
		}
		return nil
	}
	if c.Kind == plan.KindModule || c.Kind == plan.KindUnit {
		return s.run(c)
	}
	if err := s.unchanged(c); err != nil {
		return err
	}
	if !c.Drop {
		if err := s.saveBlob(c); err != nil {
			return err
		}
		if err := s.save(s.ledger.Begin(c)); err != nil {
			return err
		}
	}
	s.failpoint("recorded " + c.Path)
	if err := s.write(c); err != nil {
		return readOnly(c.Path, fmt.Errorf("writing host %s %q: %w", c.Kind, c.Path, err))
	}
	s.failpoint("written " + c.Path)
	if err := s.verify(c); err != nil {
		return err
	}
	if e, ok := s.ledger.Find(c.Path); ok && (c.Drop || len(e.Also) > 0) {
		return s.save(s.ledger.Done(c))
	}
	return nil
}

// run carries out a change that is no file.
func (s *Session) run(c plan.Change) error {
	if s.runner == nil {
		return fmt.Errorf("running %s %q: not possible here", c.Kind, c.Path)
	}
	run := s.runner.StartUnit
	if c.Kind == plan.KindModule {
		run = s.runner.LoadModule
	}
	if err := run(c.Path); err != nil {
		return fmt.Errorf("running %s %q: %w", c.Kind, c.Path, err)
	}
	s.failpoint("ran " + c.Path)
	return nil
}

// unchanged refuses a change whose path is no longer as it was when the change was computed.
func (s *Session) unchanged(c plan.Change) error {
	now, err := s.root.state(plan.Key{Path: c.Path})
	if err != nil {
		return fmt.Errorf("looking at host path %q: %w", c.Path, err)
	}
	if now.Same(c.From) {
		return nil
	}
	return &fault.Fault{
		Reason: fault.ReasonHostFileChanged, Where: c.Path,
		Message: fmt.Sprintf("it was %s when the change was planned and is %s now; not written", c.From, now),
		Remedy:  "plan again",
	}
}

// verify looks again at what was written.
func (s *Session) verify(c plan.Change) error {
	now, err := s.root.state(plan.Key{Path: c.Path})
	if err != nil {
		return fmt.Errorf("verifying host path %q: %w", c.Path, err)
	}
	if now.Same(c.To) {
		return nil
	}
	return &fault.Fault{
		Reason: fault.ReasonHostFileChanged, Where: c.Path,
		Message: fmt.Sprintf("it is %s after writing, wanted %s", now, c.To), Remedy: "find who else writes it",
	}
}

// blobPath is where large prior content with a hash lies.
func blobPath(hash string) string { return path.Join(names.StateDir, "blobs", hash) }

// saveBlob copies prior content that is too large for the ledger beside it.
func (s *Session) saveBlob(c plan.Change) error {
	e, ok := s.ledger.Begin(c).Find(c.Path)
	if !ok || !e.Prior.Blob || s.root.Exists(blobPath(e.Prior.Hash)) {
		return nil
	}
	f, err := s.root.Open(c.Path)
	if err != nil {
		return fmt.Errorf("saving prior content of %q: %w", c.Path, err)
	}
	defer f.Close()
	if err := s.mkdirAll(path.Join(names.StateDir, "blobs")); err != nil {
		return err
	}
	if err := s.replace(blobPath(e.Prior.Hash), content{r: f, hash: e.Prior.Hash}, meta{mode: 0o600}); err != nil {
		return fmt.Errorf("saving prior content of %q: %w", c.Path, err)
	}
	s.failpoint("blob " + c.Path)
	return nil
}

// save writes the ledger durably and makes it the session's.
func (s *Session) save(l plan.Ledger) error {
	data, err := l.Format()
	if err != nil {
		return err
	}
	if err := s.mkdirAll(names.StateDir); err != nil {
		return err
	}
	if err := s.replace(names.LedgerFile, bytesContent(data), meta{mode: 0o600}); err != nil {
		return readOnly(names.LedgerFile, fmt.Errorf("writing ledger %q: %w", names.LedgerFile, err))
	}
	s.ledger = l
	s.failpoint("ledger saved")
	return nil
}

// forgetIfEmpty removes an empty ledger, blobs that no entry needs, and the
// ledger's directory when nothing is in it.
func (s *Session) forgetIfEmpty() error {
	if err := s.dropBlobs(); err != nil {
		return err
	}
	if len(s.ledger.Entries) > 0 || !s.root.Exists(names.StateDir) {
		return nil
	}
	if err := s.remove(names.LedgerFile, false); err != nil {
		return fmt.Errorf("removing empty ledger: %w", err)
	}
	s.failpoint("ledger removed")
	if err := s.remove(names.StateDir, true); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("removing %q: %w", names.StateDir, err)
	}
	return nil
}

// dropBlobs removes saved contents that the ledger no longer names.
func (s *Session) dropBlobs() error {
	dir := path.Join(names.StateDir, "blobs")
	found, err := s.root.ReadDir(dir)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, h := range s.ledger.Blobs() {
		needed[h] = true
	}
	left := 0
	for _, f := range found {
		if needed[f.Name()] {
			left++
			continue
		}
		if err := s.remove(path.Join(dir, f.Name()), false); err != nil {
			return fmt.Errorf("removing saved content %q: %w", f.Name(), err)
		}
	}
	if left == 0 {
		return s.remove(dir, true)
	}
	return nil
}

// readOnly turns "read-only file system" and "permission denied" into a fault with a remedy.
func readOnly(p string, err error) error {
	if !errors.Is(err, unix.EROFS) && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return &fault.Fault{
		Reason: fault.ReasonHostReadOnly, Where: p, Message: "the host does not let this path be written", Err: err,
		Remedy: "name a writable directory in spec.toolkit.installDir or spec.toolkit.env",
	}
}
