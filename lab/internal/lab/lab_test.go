package lab

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseGPUs(t *testing.T) {
	t.Parallel()
	machines := []string{"H100-SXM5-80GB", "T4"}
	for name, tc := range map[string]struct {
		in      string
		count   int
		machine string
		wantErr string // a part of the error; "" means none
	}{
		"count and model":       {in: "8xH100-SXM5-80GB", count: 8, machine: "H100-SXM5-80GB"},
		"a model alone is one":  {in: "T4", count: 1, machine: "T4"},
		"case does not matter":  {in: "2xt4", count: 2, machine: "T4"},
		"no GPU":                {in: "none"},
		"unknown model":         {in: "8xH900", wantErr: "there are H100-SXM5-80GB, T4, and none"},
		"too many":              {in: "17xT4", wantErr: "1 to 16"},
		"zero is written none":  {in: "0xT4", wantErr: `"none"`},
		"a negative number":     {in: "-1xT4", wantErr: "1 to 16"},
		"an empty entry":        {in: "", wantErr: "not known"},
		"a number alone":        {in: "8", wantErr: "not known"},
		"a count without model": {in: "8x", wantErr: "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count, machine, err := parseGPUs(tc.in, machines)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || count != tc.count || machine != tc.machine {
				t.Fatalf("parseGPUs(%q) = %d, %q, %v; want %d, %q", tc.in, count, machine, err, tc.count, tc.machine)
			}
		})
	}
}

func TestStateAdd(t *testing.T) {
	t.Parallel()
	var s State
	var got []string
	for _, n := range []Node{{GPUs: 8}, {}, {GPUs: 1}, {Name: "big", GPUs: 8}} {
		added, err := s.Add(n)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, added.Name+" "+added.IP())
	}
	want := []string{"gpu-1 10.200.0.11", "cpu-1 10.200.0.12", "gpu-2 10.200.0.13", "big 10.200.0.14"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := s.Add(Node{Name: "big"}); err == nil {
		t.Error("a second node of one name was accepted")
	}
	s.Remove("cpu-1")
	if again, err := s.Add(Node{GPUs: 1}); err != nil || again.Index != 2 || again.Name != "gpu-3" {
		t.Errorf("after a removal got %+v, %v; want the free index 2 and the name gpu-3", again, err)
	}
	if _, err := s.Find("gpu-9"); err == nil || !strings.Contains(err.Error(), "gpu-1, gpu-3, gpu-2, big") {
		t.Errorf("error = %v, want one that lists the nodes", err)
	}
}
