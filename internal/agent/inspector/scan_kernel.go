package inspector

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// scanIdentity reads boot, kernel, system and Secure Boot.
func (s *Scanner) scanIdentity(n *facts.Node) {
	h := s.roots.Host
	n.Identity.BootID = text(h, names.BootIDFile)
	n.Identity.Kernel = text(h, names.KernelRelease)
	n.Identity.Arch = s.arch
	data, err := read(h, names.OSReleaseFile)
	if err != nil {
		data, _ = read(h, names.OSReleaseUsr)
	}
	release := facts.ParseOSRelease(data)
	n.Identity.OSID, n.Identity.OSVersion = release.ID, release.VersionID
	n.Identity.SecureBoot = s.secureBoot()
}

// secureBoot returns enabled, disabled or unknown. A machine that booted without
// EFI has none; one without sysfs says nothing.
func (s *Scanner) secureBoot() string {
	h := s.roots.Host
	if !h.Exists(path.Dir(names.EFIDir)) {
		return "unknown"
	}
	if !h.Exists(names.EFIDir) {
		return "disabled"
	}
	data, err := read(h, names.EFISecureBoot)
	if err != nil {
		return "unknown"
	}
	return facts.ParseSecureBoot(data)
}

// scanPCI reads the PCI tree, the loaded modules and the GPUs that the driver holds.
func (s *Scanner) scanPCI(n *facts.Node) {
	addresses, err := list(s.roots.Sys, names.PCIDevicesDir)
	if err != nil {
		n.PCIError = fmt.Sprintf("reading %s in sysfs: %v", names.PCIDevicesDir, err)
	}
	for _, a := range addresses {
		dir := path.Join(names.PCIDevicesDir, a)
		entry := facts.PCIEntry{Address: a, Vendor: text(s.roots.Sys, dir+"/vendor")}
		if !strings.HasSuffix(entry.Vendor, "10de") {
			continue
		}
		entry.Device, entry.Class = text(s.roots.Sys, dir+"/device"), text(s.roots.Sys, dir+"/class")
		entry.Driver = linkBase(s.roots.Sys, dir+"/driver")
		if gpu, ok := entry.GPU(); ok {
			n.GPUs = append(n.GPUs, gpu)
		}
	}
	data, _ := read(s.roots.Proc, names.ModulesProc)
	n.Modules = facts.ParseModules(data)
	held, err := list(s.roots.Proc, names.DriverGPUsDir)
	if !errors.Is(err, fs.ErrNotExist) && err == nil {
		n.DriverGPUs = held
	}
}
