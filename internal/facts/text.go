package facts

import (
	"regexp"
	"strings"
)

// OSRelease are the two fields of os-release that name an operating system.
type OSRelease struct {
	// ID is the lower-case name (ubuntu, debian, rhel).
	ID string
	// VersionID is the version (24.04), empty for rolling releases.
	VersionID string
}

// ParseOSRelease reads the content of an os-release file; unknown lines are skipped.
func ParseOSRelease(data []byte) OSRelease {
	var out OSRelease
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			out.ID = value
		case "VERSION_ID":
			out.VersionID = value
		}
	}
	return out
}

// procVersion finds the version in the kernel's line about the module, which
// comes in two forms (proprietary and open flavour).
var procVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s`)

// ParseModuleVersion reads the content of a module's version file in sysfs.
func ParseModuleVersion(data []byte) string { return strings.TrimSpace(string(data)) }

// ParseDriverVersion reads the content of /proc/driver/nvidia/version; empty when
// it names no version.
func ParseDriverVersion(data []byte) string {
	m := procVersion.FindSubmatch(append(data, '\n'))
	if m == nil {
		return ""
	}
	return string(m[1])
}

// Module is a loaded kernel module.
type Module struct {
	// Name with underscores.
	Name string
	// RefCount is the number of users.
	RefCount string
	// State is Live, Loading or Unloading.
	State string
}

// ParseModules reads the content of /proc/modules.
func ParseModules(data []byte) []Module {
	var out []Module
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		out = append(out, Module{Name: f[0], RefCount: f[2], State: f[4]})
	}
	return out
}

// FindModule returns the module of that name.
func FindModule(ms []Module, name string) (Module, bool) {
	for _, m := range ms {
		if m.Name == name {
			return m, true
		}
	}
	return Module{}, false
}

// ParseSecureBoot reads the EFI variable SecureBoot: four bytes of attributes and
// one of value. It returns enabled, disabled or unknown.
func ParseSecureBoot(data []byte) string {
	switch {
	case len(data) != 5:
		return "unknown"
	case data[4] == 1:
		return "enabled"
	}
	return "disabled"
}
