package controlplane

import (
	"context"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dialer returns a dial function whose connections are made inside the network
// namespace at path (a file below /run/netns). addr must be an address, not a
// name: a lookup would leave the thread that is in the namespace.
func Dialer(path string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		done := make(chan result, 1)
		go func() {
			conn, err := dialInside(ctx, path, network, addr)
			done <- result{conn, err}
		}()
		r := <-done
		return r.conn, r.err
	}
}

// dialInside moves its thread into the namespace; the thread is not given back
// to the scheduler (it ends with the goroutine), so nobody else ever runs there.
func dialInside(ctx context.Context, path, network, addr string) (net.Conn, error) {
	runtime.LockOSThread()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening network namespace %q (is the lab up?): %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering network namespace %q: %w", path, err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("dialling inside the lab: %w", err)
	}
	return conn, nil
}
