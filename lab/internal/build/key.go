package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sort"
	"strings"
)

// Key names a component's cache entry: the version that people know, and a hash
// of all that decides the result (module files, sources, flags, toolchain), so
// that a changed pin or flag can never be served an old program.
func Key(c Component, module fs.FS, goVersion string) (string, error) {
	h := sha256.New()
	part := func(label string, b []byte) { fmt.Fprintf(h, "%s %d\n%s\n", label, len(b), b) }
	part("go", []byte(goVersion))
	part("cgo", fmt.Append(nil, c.CGO))
	part("tags", []byte(c.Tags))
	part("ldflags", []byte(c.LDFlags))
	for _, b := range c.Binaries {
		part("binary", []byte(b.Name+" "+b.Package))
	}
	part("links", []byte(strings.Join(c.Links, " ")))
	part("debs", []byte(strings.Join(c.Debs, " ")))
	if len(c.Debs) == 0 {
		var names []string
		for _, pattern := range []string{"go.mod", "go.sum", "*.go"} {
			found, err := fs.Glob(module, pattern)
			if err != nil {
				return "", fmt.Errorf("listing %q of component %q: %w", pattern, c.Name, err)
			}
			names = append(names, found...)
		}
		if len(names) == 0 {
			return "", fmt.Errorf("component %q has no module: lab/components/%s/go.mod is missing", c.Name, c.Name)
		}
		sort.Strings(names)
		for _, n := range names {
			b, err := fs.ReadFile(module, n)
			if err != nil {
				return "", fmt.Errorf("reading %q of component %q: %w", n, c.Name, err)
			}
			part(n, b)
		}
	}
	return c.Version + "-" + hex.EncodeToString(h.Sum(nil))[:12], nil
}
