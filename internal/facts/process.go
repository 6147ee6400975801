package facts

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// startTimeField is the index of starttime (field 22) after the closing
// parenthesis of the command's name, which itself may hold spaces.
const startTimeField = 19

// ParseStartTicks returns when a process started, in clock ticks since boot, from
// the content of /proc/PID/stat.
func ParseStartTicks(stat []byte) (int64, error) {
	s := string(stat)
	end := strings.LastIndexByte(s, ')')
	if end < 0 {
		return 0, fmt.Errorf("decoding process state: no command name in %q", s)
	}
	f := strings.Fields(s[end+1:])
	if len(f) <= startTimeField {
		return 0, fmt.Errorf("decoding process state: %d fields after the name, want more than %d", len(f), startTimeField)
	}
	ticks, err := strconv.ParseInt(f[startTimeField], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("decoding process state: start time %q is no number", f[startTimeField])
	}
	return ticks, nil
}

// Nested says, from the content of /proc/PID/status, whether the process lives in
// a PID namespace below the one that the proc file system shows: a container's.
func Nested(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(rest)) > 1
		}
	}
	return false
}

// Cmdline is a process's argument list.
type Cmdline []string

// ParseCmdline splits the content of /proc/PID/cmdline.
func ParseCmdline(data []byte) Cmdline {
	s := strings.TrimRight(string(data), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// Name is the base name of the program; "" for a kernel thread.
func (c Cmdline) Name() string {
	if len(c) == 0 {
		return ""
	}
	return path.Base(c[0])
}

// Flag returns the value of the last flag of one of the names, written as
// -name=value, --name=value or --name value; "" when there is none.
func (c Cmdline) Flag(names ...string) string {
	value := ""
	for i, arg := range c {
		if !strings.HasPrefix(arg, "-") || i == 0 {
			continue
		}
		key, v, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		for _, n := range names {
			switch {
			case key != n:
			case inline:
				value = v
			case i+1 < len(c):
				value = c[i+1]
			}
		}
	}
	return value
}
