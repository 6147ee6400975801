package build

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestKey(t *testing.T) {
	t.Parallel()
	module := func(mod string) fstest.MapFS { return fstest.MapFS{"go.mod": {Data: []byte(mod)}} }
	base := Component{Name: "x", Version: "v1", LDFlags: "-s"}
	first, err := Key(base, module("a"), "go1.26.8")
	if err != nil || !strings.HasPrefix(first, "v1-") {
		t.Fatalf("Key = %q, %v; want v1-<hash>", first, err)
	}
	for name, tc := range map[string]struct {
		change func(*Component)
		mod    string
		golang string
		same   bool // whether the entry of the cache stays the same
	}{
		"nothing":         {mod: "a", golang: "go1.26.8", same: true},
		"another pin":     {mod: "b", golang: "go1.26.8"},
		"another Go":      {mod: "a", golang: "go1.27.0"},
		"another ldflag":  {mod: "a", golang: "go1.26.8", change: func(c *Component) { c.LDFlags = "-w" }},
		"another tag":     {mod: "a", golang: "go1.26.8", change: func(c *Component) { c.Tags = "t" }},
		"cgo":             {mod: "a", golang: "go1.26.8", change: func(c *Component) { c.CGO = true }},
		"another program": {mod: "a", golang: "go1.26.8", change: func(c *Component) { c.Binaries = []Binary{{"b", "."}} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := base
			if tc.change != nil {
				tc.change(&c)
			}
			got, err := Key(c, module(tc.mod), tc.golang)
			if err != nil || (got == first) != tc.same {
				t.Errorf("Key = %q, %v; before the change %q, same = %t wanted", got, err, first, tc.same)
			}
		})
	}
	if _, err := Key(base, fstest.MapFS{}, "go1.26.8"); err == nil {
		t.Error("a component without a module was accepted")
	}
}
