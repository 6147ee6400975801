package controlplane

import (
	"strings"
	"testing"
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
