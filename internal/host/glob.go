package host

import (
	"path"
	"strings"
)

// Glob returns the paths that match a pattern, sorted by name, as filepath.Glob
// does below the root; a pattern without "*" is returned when it exists.
func (r *Root) Glob(pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, "*?[") {
		if r.Exists(pattern) {
			return []string{pattern}, nil
		}
		return nil, nil
	}
	dirs, err := r.Glob(path.Dir(pattern))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, dir := range dirs {
		entries, err := r.ReadDir(dir)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			ok, err := path.Match(path.Base(pattern), e.Name())
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	return out, nil
}
