package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// ErrOtherDriver says that the library on disk is of another version than the loaded
// driver. A process that cannot get another library has to be started anew.
var ErrOtherDriver = errors.New("the driver that is loaded is of another version than its library here")

// closeWait is how long a call on its way may take before it counts as one that
// hangs, when the library is closed; waits for events end within it.
const closeWait = eventWait * time.Millisecond

// Options say where NVML is and how long to wait for it.
type Options struct {
	// Library is the path of libnvidia-ml.so.1; empty: the linker's, then the
	// directories of names.LibraryDirs.
	Library string
	// Sysfs is the root below which PCI devices are; empty: not looked at.
	Sysfs string
	// Timeout bounds each question about one GPU; zero: 3 s.
	Timeout time.Duration
}

// Client is NVML. It is safe for use by several goroutines.
type Client struct {
	opts Options

	mu      sync.Mutex
	current *session
	// system guards calls that concern no GPU: opening, closing, counting.
	system guard
	// ending is closed when the last session that was ended is closed for good.
	ending chan struct{}
	// known is what each GPU last said of itself, by index.
	known map[int]facts.Device
}

// session is NVML as it was opened once.
type session struct {
	lib            nvml.Interface
	driver         string
	cuda           int
	devices        []*guard
	stop           chan struct{}
	watchers       sync.WaitGroup
	hasMemoryV2    bool
	hasRemoteTypes bool
}

// New returns a client; nothing is opened yet.
func New(o Options) *Client {
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	return &Client{opts: o, known: map[int]facts.Device{}}
}

// open returns the current session, or a new one.
func (c *Client) open(ctx context.Context) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current, nil
	}
	// The library's functions are bound once a process: one session ends before the
	// next begins, unless it hangs.
	if err := wait(ctx, c.ending, c.opts.Timeout+2*closeWait); err != nil {
		return nil, err
	}
	type result struct {
		s   *session
		err error
	}
	// Opening attaches every GPU, which takes seconds on a machine without
	// persistence daemon.
	r, err := within(ctx, &c.system, 10*c.opts.Timeout, func() result {
		s, err := c.connect()
		return result{s, err}
	})
	if err == nil {
		err = r.err
	}
	if err != nil {
		return nil, fmt.Errorf("opening the driver's management library: %w", err)
	}
	c.current = r.s
	return c.current, nil
}

// connect loads and initialises the library.
func (c *Client) connect() (*session, error) {
	var tried error
	for _, path := range c.libraries() {
		lib := nvml.New(nvml.WithLibraryPath(path))
		ret := lib.Init()
		if ret == nvml.SUCCESS {
			return newSession(lib)
		}
		if ret != nvml.ERROR_LIBRARY_NOT_FOUND {
			return nil, initError(path, ret)
		}
		tried = errors.Join(tried, fmt.Errorf("library %q was not found", path))
	}
	return nil, tried
}

// libraries returns the paths to try.
func (c *Client) libraries() []string {
	if c.opts.Library != "" {
		return []string{c.opts.Library}
	}
	const soname = "libnvidia-ml.so.1"
	out := []string{soname}
	for _, dir := range names.LibraryDirs() {
		path := filepath.Join(dir, soname)
		if _, err := os.Stat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// initError says what a failed initialisation means.
func initError(path string, ret nvml.Return) error {
	if ret == nvml.ERROR_LIB_RM_VERSION_MISMATCH {
		return fmt.Errorf("initialising %q: %w", path, ErrOtherDriver)
	}
	return fmt.Errorf("initialising %q: %s", path, word(ret))
}

// word is NVML's own word for a return value; those that people meet are given
// here, as they do not need the library.
func word(ret nvml.Return) string {
	given := map[nvml.Return]string{
		nvml.ERROR_DRIVER_NOT_LOADED: "the driver is not loaded",
		nvml.ERROR_GPU_IS_LOST:       "the GPU is lost: it has fallen off the bus or has otherwise become inaccessible",
		nvml.ERROR_NO_PERMISSION:     "no permission: the device nodes cannot be opened",
		nvml.ERROR_UNINITIALIZED:     "the library is not initialised",
	}
	if text, ok := given[ret]; ok {
		return text
	}
	return fmt.Sprintf("%s (NVML error %d)", nvml.ErrorString(ret), int(ret))
}

// newSession asks what stays the same while the library is open.
func newSession(lib nvml.Interface) (*session, error) {
	s := &session{lib: lib, stop: make(chan struct{})}
	var ret nvml.Return
	if s.driver, ret = lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		return nil, errors.Join(fmt.Errorf("asking for the driver's version: %s", word(ret)), closing(lib))
	}
	if s.cuda, ret = lib.SystemGetCudaDriverVersion_v2(); ret != nvml.SUCCESS {
		s.cuda = 0 // a label less, no reason to do without the rest
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, errors.Join(fmt.Errorf("counting GPUs: %s", word(ret)), closing(lib))
	}
	for range n {
		s.devices = append(s.devices, &guard{})
	}
	// A call to a function that an old library lacks ends the process.
	s.hasMemoryV2 = lib.Extensions().LookupSymbol("nvmlDeviceGetMemoryInfo_v2") == nil
	s.hasRemoteTypes = lib.Extensions().LookupSymbol("nvmlDeviceGetNvLinkRemoteDeviceType") == nil
	return s, nil
}

// closing ends the library and says when that fails.
func closing(lib nvml.Interface) error {
	if ret := lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("closing the library: %s", word(ret))
	}
	return nil
}

// answers asks the driver something that concerns no GPU; when it does not answer,
// the session is over, and the next question opens another.
func (c *Client) answers(ctx context.Context, s *session) error {
	ret, err := within(ctx, &c.system, c.opts.Timeout, func() nvml.Return {
		v, ret := s.lib.SystemGetDriverVersion()
		if ret == nvml.SUCCESS && v != s.driver {
			return nvml.ERROR_LIB_RM_VERSION_MISMATCH
		}
		return ret
	})
	switch {
	case err != nil:
		return err
	case ret == nvml.SUCCESS:
		return nil
	}
	c.drop(s)
	if ret == nvml.ERROR_LIB_RM_VERSION_MISMATCH {
		return fmt.Errorf("asking the driver: %w", ErrOtherDriver)
	}
	return fmt.Errorf("asking the driver: %s", word(ret))
}

// drop ends a session.
func (c *Client) drop(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != s {
		return
	}
	c.current = nil
	c.end(s)
}

// end stops a session's watchers and closes the library, unless a call still hangs
// in it: closing it under that call would hang too, or crash.
func (c *Client) end(s *session) {
	close(s.stop)
	ended := make(chan struct{})
	c.ending = ended
	go func() {
		defer close(ended)
		s.watchers.Wait()
		for _, g := range s.devices {
			if !g.close(closeWait) {
				return
			}
		}
		_ = s.lib.Shutdown() // the session is over either way
	}()
}

// wait waits until done is closed, at most limit; a nil channel counts as closed. It
// fails only when the context ends.
func wait(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	if done == nil {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the driver's management library to close: %w", ctx.Err())
	}
	return nil
}

// Close ends the library and waits for that, but not for a call that hangs. A client that
// is closed opens it again when asked.
func (c *Client) Close() {
	c.mu.Lock()
	if s := c.current; s != nil {
		c.current = nil
		c.end(s)
	}
	ending := c.ending
	c.mu.Unlock()
	if ending == nil {
		return
	}
	timer := time.NewTimer(c.opts.Timeout + 2*closeWait)
	defer timer.Stop()
	select {
	case <-ending:
	case <-timer.C:
	}
}
