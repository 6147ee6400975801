package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// libraries are the parts of the C library that programs built here may load.
// The loader's own path is fixed in every dynamic program.
func libraries() []string {
	const dir = "/lib/x86_64-linux-gnu/"
	return []string{
		"/lib64/ld-linux-x86-64.so.2",
		dir + "libc.so.6", dir + "libm.so.6", dir + "libdl.so.2", dir + "libpthread.so.0",
		dir + "librt.so.1", dir + "libresolv.so.2", dir + "libgcc_s.so.1",
		dir + "libnss_files.so.2", dir + "libnss_dns.so.2",
	}
}

// Base is the tree that every image starts from: the usual folders, a root and a
// nobody, and the machine's C library.
func Base() (Tree, error) {
	t := Tree{
		"tmp":      {Dir: true, Mode: 0o777 | fs.ModeSticky},
		"root":     {Dir: true, Mode: 0o700},
		"proc":     {Dir: true},
		"sys":      {Dir: true},
		"dev":      {Dir: true},
		"run":      {Dir: true},
		"var/run":  {Link: "/run"},
		"bin":      {Link: "usr/bin"},
		"sbin":     {Link: "usr/sbin"},
		"lib":      {Link: "usr/lib"},
		"lib64":    {Link: "usr/lib64"},
		"usr/bin":  {Dir: true},
		"usr/sbin": {Dir: true},

		"etc/passwd":        {Data: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"},
		"etc/group":         {Data: "root:x:0:\nnogroup:x:65534:\n"},
		"etc/nsswitch.conf": {Data: "passwd: files\ngroup: files\nhosts: files dns\n"},
		"etc/ld.so.conf":    {Data: "/usr/lib/x86_64-linux-gnu\n/usr/lib\n"},
	}
	for _, lib := range libraries() {
		if _, err := os.Stat(lib); err != nil {
			return nil, fmt.Errorf("reading the machine's C library for the images' base: %w", err)
		}
		t[path.Join("usr", lib)] = Entry{Source: lib, Mode: 0o755}
	}
	return t, nil
}

// busyboxPath is Debian's static busybox.
const busyboxPath = "/usr/bin/busybox"

// AddShell adds a shell and its tools (busybox) to a tree.
func (t Tree) AddShell(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, busyboxPath, "--list").Output()
	if err != nil {
		return fmt.Errorf("listing busybox's tools: %w", err)
	}
	t["usr/bin/busybox"] = Entry{Source: busyboxPath, Mode: 0o755}
	for tool := range strings.FieldsSeq(string(out)) {
		name := filepath.Join("usr/bin", tool)
		if _, ok := t[name]; !ok {
			t[name] = Entry{Link: "busybox"}
		}
	}
	return nil
}
