package inspector

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/host"
	"gpu-operator/internal/names"
)

// Watcher tells when something in one of the directories that matter changes. A
// directory that is not there yet is awaited in its nearest parent.
type Watcher struct {
	root    *host.Root
	inotify *fsnotify.Watcher
	reports chan struct{}
	changes chan struct{}
	// refresh carries the wanted directories to the goroutine that owns the watches.
	refresh chan []string
}

// NewWatcher starts watching below root; Close ends it.
func NewWatcher(root *host.Root) (*Watcher, error) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching the host's directories: %w", err)
	}
	w := &Watcher{root: root, inotify: n, reports: make(chan struct{}, 1), changes: make(chan struct{}, 1), refresh: make(chan []string, 1)}
	go w.loop()
	return w, nil
}

// Reports receives at least one value after an operand's report changed, ours or that
// of an image of the peer project; changes in a row may share one.
func (w *Watcher) Reports() <-chan struct{} { return w.reports }

// Changes is the same for everything else that matters.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Close ends the watches.
func (w *Watcher) Close() error { return w.inotify.Close() }

// Refresh renews the watches for what a node has now.
func (w *Watcher) Refresh(n facts.Node) {
	select {
	case w.refresh <- directories(n):
	default: // the last one is not taken yet; the next look brings another
	}
}

// directories are the host's directories in which a change is news. /dev is not
// among them: every write to a terminal would be.
func directories(n facts.Node) []string {
	out := []string{
		names.RunDir, names.ValidationsDir, names.CDIStaticDir, names.CDIDir, names.StateDir,
		path.Dir(names.ContainerdConfig), names.ContainerdDropInDir,
	}
	if p := n.Identity.RuntimeConfigPath; p != "" {
		out = append(out, path.Dir(p))
	}
	if p := n.Kubelet.Endpoint; p != "" {
		out = append(out, path.Dir(p)) // the socket is made anew when the runtime restarts
	}
	return out
}

// loop owns the watches and passes on what matters.
func (w *Watcher) loop() {
	// interest maps a watched directory to the names in it that matter; nil: all do.
	interest := map[string]map[string]bool{}
	for {
		select {
		case dirs := <-w.refresh:
			interest = w.renew(dirs)
		case e, ok := <-w.inotify.Events:
			if !ok {
				return
			}
			switch {
			case !matters(e, interest):
			case strings.HasPrefix(e.Name, filepath.Join(w.root.Dir(), names.NvidiaRunDir)+"/"):
				notify(w.reports)
			default:
				notify(w.changes)
			}
		case _, ok := <-w.inotify.Errors:
			if !ok {
				return
			}
			notify(w.reports) // events may be lost: look
		}
	}
}

// matters says whether an event is news.
func matters(e fsnotify.Event, interest map[string]map[string]bool) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	if _, self := interest[e.Name]; self {
		return true // a watched directory itself was moved or removed
	}
	wanted, ok := interest[filepath.Dir(e.Name)]
	return ok && (wanted == nil || wanted[filepath.Base(e.Name)])
}

// notify tells of a change unless it was told already.
func notify(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// renew watches the directories, or their nearest parents, and drops other watches.
func (w *Watcher) renew(dirs []string) map[string]map[string]bool {
	interest := map[string]map[string]bool{}
	for _, dir := range dirs {
		at, missing := w.nearest(dir)
		names, known := interest[at]
		switch {
		case missing == "":
			interest[at] = nil
		case !known:
			interest[at] = map[string]bool{missing: true}
		case names != nil:
			names[missing] = true
		}
	}
	for _, old := range w.inotify.WatchList() {
		if _, ok := interest[old]; !ok {
			_ = w.inotify.Remove(old)
		}
	}
	for at := range interest {
		// A directory that vanished since is found again at the next look.
		_ = w.inotify.Add(at)
	}
	return interest
}

// nearest returns the deepest existing directory on the way to dir, as this process
// sees it, and the name below it that is missing ("" when dir itself exists).
func (w *Watcher) nearest(dir string) (at, missing string) {
	for {
		real, err := w.root.Resolve(dir)
		if err == nil && w.root.Exists(real) || dir == "/" {
			return filepath.Join(w.root.Dir(), real), missing
		}
		missing = path.Base(strings.TrimSuffix(dir, "/"))
		dir = path.Dir(dir)
	}
}
