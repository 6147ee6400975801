package containerd

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"gpu-operator/internal/fault"
)

// tree is a parsed configuration file.
type tree struct {
	path string
	top  map[string]any
}

// parse reads TOML; an error names line and column.
func parse(path string, data []byte) (tree, error) {
	t := tree{path: path, top: map[string]any{}}
	err := toml.Unmarshal(data, &t.top)
	if err == nil {
		return t, nil
	}
	where := path
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, col := d.Position()
		where = fmt.Sprintf("%s:%d:%d", path, row, col)
	}
	return t, &fault.Fault{
		Reason: fault.ReasonRuntimeConfigInvalid, Where: where, Message: "not valid TOML; the file was not touched",
		Err: err, Remedy: "repair it: containerd itself would not start with it",
	}
}

// version returns the literal of the file's version key; 0 when there is none.
func (t tree) version() (int, error) {
	v, ok := t.top["version"]
	if !ok {
		return 0, nil
	}
	n, ok := v.(int64)
	if !ok || n < 1 || n > 4 {
		return 0, t.invalid("version is %#v, want a number from 1 to 4", v)
	}
	return int(n), nil
}

// invalid is a fault about this file.
func (t tree) invalid(format string, args ...any) error {
	return &fault.Fault{Reason: fault.ReasonRuntimeConfigInvalid, Where: t.path, Message: fmt.Sprintf(format, args...), Remedy: "repair the file; it was not touched"}
}

// imports returns the patterns of the imports key.
func (t tree) imports() ([]string, error) {
	v, ok := t.top["imports"]
	if !ok {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, t.invalid("imports is %T, want an array of strings", v)
	}
	var out []string
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return nil, t.invalid("imports holds %v, want strings", item)
		}
		out = append(out, s)
	}
	return out, nil
}

// Imports returns the absolute patterns that a configuration file imports, in
// order, as containerd resolves them: relative ones from the file's directory.
func Imports(file string, data []byte) ([]string, error) {
	t, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	list, err := t.imports()
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		if !path.IsAbs(p) {
			list[i] = path.Join(path.Dir(file), p)
		}
	}
	return list, nil
}

// criTable returns the name of the CRI plugin's table for a configuration version.
func criTable(version int) string {
	switch version {
	case 0, 1:
		return "cri"
	case 2:
		return "io.containerd.grpc.v1.cri"
	}
	return "io.containerd.cri.v1.runtime"
}

// cri returns the file's CRI table; ok is false when the file has none.
func (t tree) cri() (map[string]any, bool, error) {
	v, err := t.version()
	if err != nil {
		return nil, false, err
	}
	plugins, ok := t.top["plugins"].(map[string]any)
	if !ok {
		return nil, false, nil
	}
	table, ok := plugins[criTable(v)].(map[string]any)
	return table, ok, nil
}

// table walks down nested tables; nil when one is missing.
func table(m map[string]any, keys ...string) map[string]any {
	for _, k := range keys {
		next, ok := m[k].(map[string]any)
		if !ok {
			return nil
		}
		m = next
	}
	return m
}

// deepMerge returns base with over's keys merged in, table by table.
func deepMerge(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range over {
		o, isTable := v.(map[string]any)
		b, wasTable := out[k].(map[string]any)
		if isTable && wasTable {
			out[k] = deepMerge(b, o)
			continue
		}
		out[k] = v
	}
	return out
}

// zero says whether a value is what a missing key means.
func zero(v any) bool {
	switch x := v.(type) {
	case string:
		return x == ""
	case bool:
		return !x
	case int64:
		return x == 0
	case float64:
		return x == 0
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// tomlValue renders a scalar or an array of scalars; ok is false for other values.
func tomlValue(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return quote(x), true
	case bool, int64:
		return fmt.Sprint(x), true
	case []any:
		var parts []string
		for _, item := range x {
			s, ok := tomlValue(item)
			if !ok {
				return "", false
			}
			parts = append(parts, s)
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	}
	return "", false
}

// quote renders a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// sortedKeys returns a table's keys in order.
func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
