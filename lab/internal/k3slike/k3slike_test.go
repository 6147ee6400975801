package k3slike

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	const own = `{{ template "base" . }}`
	for name, tc := range map[string]struct {
		user, found string
		imports     bool
		has, lacks  string
	}{
		"its own":            {own, "", true, "config-v3.toml.d/*.toml", "nvidia"},
		"an older release":   {own, "", false, "runtimes.runc", "imports"},
		"a runtime is found": {own, "/usr/bin/nvidia-container-runtime", true, "BinaryName = \"/usr/bin/nvidia-container-runtime\"", "toolkit"},
		"the user's":         {own + "\n[debug]\nlevel = \"info\"\n", "", true, "[debug]", "nvidia"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := config(tc.user, tc.found, tc.imports)
			if err != nil || !strings.Contains(string(text), tc.has) || strings.Contains(string(text), tc.lacks) {
				t.Errorf("%v; want %q and not %q in\n%s", err, tc.has, tc.lacks, text)
			}
		})
	}
	if _, err := config("{{ template", "", true); err == nil {
		t.Error("a template that is none was rendered")
	}
}
