package deviceplugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpu-operator/internal/names"
)

const (
	// connectWait is how long after a registration the kubelet may take to open its
	// stream before it is registered with again.
	connectWait = 5 * time.Second
	// steady is how long a stream has to stand before its end counts as a new trouble
	// and not as one more of the same.
	steady = 30 * time.Second
	// againFirst and againLast bound the pauses between registrations.
	againFirst = 100 * time.Millisecond
	againLast  = 5 * time.Second
	// registerWait bounds one registration.
	registerWait = 5 * time.Second
)

// socket identifies a socket file; a new one at the same path is another. Inode
// numbers are used again, so the time of its making is a part.
type socket struct {
	inode     uint64
	sec, nsec int64
}

// socketAt identifies what is at a path; the zero value: nothing.
func socketAt(path string) socket {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return socket{}
	}
	return socket{inode: st.Ino, sec: st.Ctim.Sec, nsec: st.Ctim.Nsec}
}

// link is what is seen of the way to the kubelet.
type link struct {
	// own is our socket as we made it, found what is in its place now.
	own, found socket
	// kubelet is the kubelet's socket now, registered the one that took our registration.
	kubelet, registered socket
	// registeredAt is when it did.
	registeredAt time.Time
	// streams is the number of open streams, ended says that one has ended since the
	// registration.
	streams int
	ended   bool
	// notBefore is when the next registration may be tried.
	notBefore time.Time
}

// step is what to do about a link.
type step int

const (
	stepNothing step = iota
	// stepListen: make our socket anew.
	stepListen
	// stepRegister: tell the kubelet about it.
	stepRegister
)

// next says what to do, purely from what is seen.
func next(l link, now time.Time) step {
	lost := l.kubelet != l.registered ||
		l.streams == 0 && (l.ended || now.Sub(l.registeredAt) >= connectWait)
	switch {
	case l.own == socket{} || l.own != l.found:
		return stepListen
	case l.kubelet == socket{} || !lost || now.Before(l.notBefore):
		return stepNothing
	}
	return stepRegister
}

// pauseAfter is the pause after the n-th registration in a row that came to nothing;
// jitter in [0,1) keeps nodes and resources from moving in step.
func pauseAfter(n int, jitter float64) time.Duration {
	d := againLast
	if n < 10 {
		d = min(againFirst<<n, againLast)
	}
	return d/2 + time.Duration(jitter*float64(d/2))
}

// register tells the kubelet about a resource.
func register(ctx context.Context, dir, endpoint, resource string) error {
	ctx, cancel := context.WithTimeout(ctx, registerWait)
	defer cancel()
	path := filepath.Join(dir, filepath.Base(names.KubeletSocket))
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("dialling the kubelet at %q: %w", path, err)
	}
	defer conn.Close()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: endpoint, ResourceName: resource,
		Options: &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	if err != nil {
		return fmt.Errorf("registering %s at %q: %w", resource, path, err)
	}
	return nil
}

// removeSocket removes a socket file; one that is not there is as good.
func removeSocket(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing socket: %w", err)
	}
	return nil
}
