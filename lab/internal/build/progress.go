package build

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// heartbeat is the longest silence while something long runs: a person, or a CI
// job that ends what looks hung, sees that it is alive.
const heartbeat = 15 * time.Second

// Progress prints what the lab does, with the time since it began. It is safe
// for use by several goroutines.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	now   func() time.Time
	start time.Time
}

// NewProgress starts the clock.
func NewProgress(out io.Writer, now func() time.Time) *Progress {
	return &Progress{out: out, now: now, start: now()}
}

// Step prints one line: the time since the start, then the text.
func (p *Progress) Step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%6s  %s\n", p.now().Sub(p.start).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// During prints what, runs do, and prints a line with the time taken; every
// heartbeat in between it prints what again with detail (may be nil).
func (p *Progress) During(what string, detail func() string, do func() error) error {
	begun := p.now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				line := what + " ..."
				if detail != nil {
					line += " " + detail()
				}
				p.Step("%s (%s so far)", line, p.now().Sub(begun).Round(time.Second))
			}
		}
	})
	err := do()
	close(done)
	wg.Wait()
	if err == nil {
		p.Step("%s: %s", what, p.now().Sub(begun).Round(100*time.Millisecond))
	}
	return err
}

// tail keeps a command's last output and counts its lines.
type tail struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	lines int
}

// tailBytes is how much of a failed build's output is worth showing.
const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines += bytes.Count(b, []byte("\n"))
	t.buf.Write(b)
	if extra := t.buf.Len() - tailBytes; extra > 0 {
		t.buf.Next(extra)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}

func (t *tail) packages() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d packages compiled", t.lines)
}
