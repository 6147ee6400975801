package toolkit

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	"gpu-operator/internal/host/daemon"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// Times of the loop.
const (
	// settle lets a burst of file events become one pass.
	settle = 500 * time.Millisecond
	// glance is the period of the cheap look at what no file event tells: the
	// driver's version and the daemon's start.
	glance = 60 * time.Second
	// firstRetry and lastRetry bound the pause after a pass that failed.
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// Run keeps the node as wanted until ctx ends. It returns nil then, and leaves the
// node as it is: what was installed is taken back by Uninstall only.
func (a *Agent) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	log := logr.FromContextOrDiscard(ctx)
	retry := firstRetry
	for ctx.Err() == nil {
		wait := glance
		if err := a.Pass(ctx); err != nil {
			log.Error(err, "Node is not as wanted", "retryIn", retry.String())
			wait, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		a.rewatch(watcher)
		a.idle(ctx, watcher, wait)
	}
	return nil
}

// rewatch watches the directories that the last pass looked at; those that are not
// there (yet) are covered by the timer.
func (a *Agent) rewatch(w *fsnotify.Watcher) {
	for _, dir := range append(a.watch.dirs, filepath.Dir(evidencePath()), names.CDIDir) {
		if real, err := a.deps.Root.Resolve(dir); err == nil {
			_ = w.Add(filepath.Join(a.deps.Root.Dir(), real))
		}
	}
}

// idle returns when another pass is due: a file event that matters, the end of the
// retry pause, or a glance that sees a difference.
func (a *Agent) idle(ctx context.Context, w *fsnotify.Watcher, wait time.Duration) {
	failed := !a.evidence.Ready
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if failed || a.differs(ctx) {
				return
			}
			timer.Reset(wait)
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if ours(e.Name) {
				continue
			}
			a.drain(ctx, w)
			if failed || a.differs(ctx) {
				return
			}
		case _, open := <-w.Errors: // events were lost: look
			if !open {
				return
			}
			if a.differs(ctx) {
				return
			}
		}
	}
}

// drain takes the events of a burst for a fixed time, so that a directory that is
// never quiet delays nothing.
func (a *Agent) drain(ctx context.Context, w *fsnotify.Watcher) {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.Events:
		}
	}
}

// ours says whether a file event is of a file that this agent writes on the way.
func ours(name string) bool {
	base := filepath.Base(name)
	return base == filepath.Base(rehearsalDir) || filepath.Ext(base) == ".tmp"
}

// differs is the cheap look: nothing is started, and only small files are read.
func (a *Agent) differs(ctx context.Context) bool {
	w := a.watch
	socket, err := a.deps.Root.Resolve(a.cfg.Options.Socket)
	if err != nil {
		return true
	}
	p, err := daemon.FindProcess(ctx, filepath.Join(a.deps.Root.Dir(), socket), filepath.Join(a.deps.Root.Dir(), "proc"))
	if err != nil || p.StartedAt != w.started {
		return true
	}
	if state := a.deps.Driver(); state.Ready {
		d, err := a.driver(state, a.evidence.BootID)
		if err != nil || d.Key() != w.driver {
			return true
		}
	} else if w.driver != "" {
		return true
	}
	return a.configHash() != w.configs || a.drifted() || !a.deps.Root.Exists(evidencePath())
}

// drifted says whether a file of ours, or one that holds our edit, is not as the
// ledger has it. Binaries are compared by size and time only.
func (a *Agent) drifted() bool {
	ledger, err := a.deps.Root.ReadLedger()
	if err != nil {
		return true
	}
	for _, e := range ledger.Entries {
		if e.Group != Step {
			continue
		}
		if e.Wrote.Type == plan.TypeFile && e.Wrote.Size > plan.InlineLimit {
			info, err := a.stat(e.Path)
			if err != nil || info.Size() != e.Wrote.Size {
				return true
			}
			continue
		}
		seen, err := a.deps.Root.Observe([]plan.Key{{Path: e.Path, Whole: e.Kind == plan.KindEdit}})
		if err != nil || !e.Ours(seen.Paths[e.Path]) {
			return true
		}
	}
	for _, spec := range specPaths() {
		if !a.deps.Root.Exists(spec) && a.watch.driver != "" {
			return true
		}
	}
	return false
}

// stat looks at a file without reading it.
func (a *Agent) stat(p string) (os.FileInfo, error) {
	f, err := a.deps.Root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}
