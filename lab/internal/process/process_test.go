package process

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	fields := " S 1 " + strings.Repeat("0 ", 17) + "4242 0 0"
	for name, tc := range map[string]struct {
		in    string
		start uint64
		bad   bool
	}{
		"plain":                  {in: "7 (etcd)" + fields, start: 4242},
		"brackets in the name":   {in: "7 (a) b (c)" + fields, start: 4242},
		"cut off":                {in: "7 (etcd) S 1", bad: true},
		"not a stat line at all": {in: "x", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, start, err := parseStat(tc.in)
			if (err != nil) != tc.bad || start != tc.start || (!tc.bad && state != "S") {
				t.Errorf("parseStat(%q) = %q, %d, %v", tc.in, state, start, err)
			}
		})
	}
}

// TestALife: a recorded process is found, ended, waited for and no longer found; a
// pid file that is none finds nothing.
func TestALife(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sleep.pid")
	if pid := Live(file); pid != 0 {
		t.Errorf("no file names process %d", pid)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	if err := Record(file, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if pid := Live(file); pid != cmd.Process.Pid {
		t.Errorf("the file names process %d, want %d", pid, cmd.Process.Pid)
	}
	if WaitGone(t.Context(), file, time.Millisecond) {
		t.Error("a running process is said to be gone")
	}
	if err := End(t.Context(), cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if !WaitGone(t.Context(), file, 10*time.Second) {
		t.Error("an ended process is said to run")
	}
	if err := Record(file, cmd.Process.Pid); err == nil {
		t.Error("an ended process was recorded")
	}
}
