package controlplane

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

const sockets = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:192B 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:192B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
`

func TestListener(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		table string
		port  int
		inode string
	}{
		"IPv4":                            {sockets, 2379, "4711"},
		"IPv6, beside a connection to it": {sockets, 6443, "4713"},
		"a connection alone is none":      {strings.Join(strings.Split(sockets, "\n")[:3], "\n"), 6443, ""},
		"free":                            {sockets, 10257, ""},
		"nothing at all":                  {"", 2379, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if inode, found := listener(tc.table, tc.port); inode != tc.inode || found != (tc.inode != "") {
				t.Errorf("listener(%d) = %q, %v", tc.port, inode, found)
			}
		})
	}
}

// TestPortsFree names this very process, which holds a port.
func TestPortsFree(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("entering a network namespace needs root")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	const own = "/proc/self/ns/net"
	err = portsFree(own, []int{port})
	if want := "process " + strconv.Itoa(os.Getpid()) + " ("; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("a port of ours: %v, want %q", err, want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := portsFree(own, []int{port}); err != nil {
		t.Errorf("a free port: %v", err)
	}
	if err := portsFree("/nowhere", []int{port}); err == nil {
		t.Error("no namespace, no error")
	}
}
