package confine

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// role is how the test's own program is told to be the confined process.
const role = "CONFINE_TEST_FILE"

// TestMain is the confined process when it is told a file.
func TestMain(m *testing.M) {
	file := os.Getenv(role)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := ReadOnly(os.Args, os.Environ()); err != nil {
		os.Stdout.WriteString("not confined: " + err.Error())
		os.Exit(0)
	}
	_, readErr := os.ReadFile(file)
	writeErr := os.WriteFile(file, []byte("changed"), 0o644)
	makeErr := os.WriteFile(file+".new", nil, 0o644)
	removeErr := os.Remove(file)
	linkErr := os.Symlink(file, file+".link")
	for _, r := range []struct {
		name string
		err  error
	}{{"read", readErr}, {"write", writeErr}, {"make", makeErr}, {"remove", removeErr}, {"link", linkErr}} {
		verdict := "done"
		if errors.Is(r.err, fs.ErrPermission) {
			verdict = "refused"
		}
		os.Stdout.WriteString(r.name + " " + verdict + "\n")
	}
	os.Exit(0)
}

func TestReadOnly(t *testing.T) {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		t.Skipf("this kernel has no Landlock: %v", errno)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "read done\nwrite refused\nmake refused\nremove refused\nlink refused\n"
	if string(out) != want {
		t.Errorf("got:\n%swant:\n%s", out, want)
	}
	if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, []byte("kept")) {
		t.Errorf("file holds %q (%v)", data, err)
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("left behind: %s", strings.Join(left, " "))
	}
}
