package inspector

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
	"gpu-operator/internal/plan"
)

// driverRoot is a place where a driver's libraries may be.
type driverRoot struct {
	kind, dir string
	// found is the library's path below dir, version its driver version.
	found, version string
}

// driverRoots are the places in the order in which they win: a driver that was
// brought to the node shadows one of the OS image.
func driverRoots() []driverRoot {
	return []driverRoot{
		{kind: facts.DriverManaged, dir: names.ManagedDriverRoot},
		{kind: facts.DriverHost, dir: names.HostDriverRoot},
	}
}

// scanDriver finds the loaded module, the library and the control device.
func (s *Scanner) scanDriver(n *facts.Node) {
	loaded := facts.ParseModuleVersion([]byte(text(s.roots.Sys, names.ModuleVersionFile)))
	if loaded == "" {
		data, _ := read(s.roots.Proc, names.DriverVersionProc)
		loaded = facts.ParseDriverVersion(data)
	}
	var tried []string
	var best *driverRoot
	for _, r := range driverRoots() {
		tried = append(tried, s.findLibrary(&r))
		// The library that fits the module wins over one that merely comes first.
		if r.found != "" && (best == nil || best.version != loaded && r.version == loaded) {
			best = &r
		}
	}
	n.Driver = v1alpha1.DriverState{Kind: facts.DriverNone, LoadedVersion: loaded}
	if best != nil {
		n.Driver.Kind, n.Driver.Root, n.Driver.LibraryVersion = best.kind, best.dir, best.version
	}
	control := s.deviceNode(n.Driver.Root, names.DevControl)
	n.UVMDevice = s.deviceNode(n.Driver.Root, names.DevUVM) != ""
	judgeDriver(&n.Driver, best, tried, control, len(n.GPUs))
}

// judgeDriver decides whether the driver can answer, and why not.
func judgeDriver(d *v1alpha1.DriverState, lib *driverRoot, tried []string, control string, gpus int) {
	switch {
	case d.LoadedVersion == "" && lib == nil && gpus == 0:
		d.Message = "no NVIDIA GPU and no driver"
	case d.LoadedVersion == "" && lib == nil:
		d.Reason = v1alpha1.FindingDriverNotLoaded
		d.Message = "module nvidia is not loaded, and no driver is installed: " + facts.LibraryML + " is not " + strings.Join(tried, ", nor ")
	case d.LoadedVersion == "":
		d.Reason = v1alpha1.FindingDriverNotLoaded
		d.Message = fmt.Sprintf("driver %s is installed (%s), but module nvidia is not loaded", d.LibraryVersion, path.Join(lib.dir, lib.found))
	case lib == nil:
		d.Reason = v1alpha1.FindingDriverLibraryMissing
		d.Message = fmt.Sprintf("module nvidia %s is loaded, but %s is not %s", d.LoadedVersion, facts.LibraryML, strings.Join(tried, ", nor "))
	case d.LibraryVersion != d.LoadedVersion:
		d.Reason = v1alpha1.FindingDriverVersionMismatch
		d.Message = fmt.Sprintf("module nvidia is %s, but library %s is %q", d.LoadedVersion, path.Join(lib.dir, lib.found), d.LibraryVersion)
	case control == "":
		d.Reason = v1alpha1.FindingDriverDeviceMissing
		d.Message = fmt.Sprintf("device node %s is not there", names.DevControl)
	default:
		d.Ready = true
	}
}

// findLibrary looks for the management library below a root and returns, in words,
// where it looked. The linker's cache is asked first, then the usual directories;
// links are followed within the root.
func (s *Scanner) findLibrary(r *driverRoot) string {
	if !there(s.roots.Host, r.dir) {
		return fmt.Sprintf("below %s (which is not there)", r.dir)
	}
	dirs := []string{}
	if cache, err := read(s.roots.Host, path.Join(r.dir, names.LibraryCache)); err == nil {
		paths, _ := facts.LibraryPaths(cache, facts.LibraryML)
		for _, p := range paths {
			dirs = append(dirs, path.Dir(p))
		}
	}
	for _, dir := range names.LibraryDirs() {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if version, ok := s.libraryVersion(r.dir, dir); ok {
			r.found, r.version = path.Join(dir, facts.LibraryML), version
			break
		}
	}
	return fmt.Sprintf("below %s in any of %s", r.dir, strings.Join(dirs, " "))
}

// libraryVersion returns the version of the management library in a directory below
// a driver root: from what the soname's link leads to, else from a versioned file beside it.
func (s *Scanner) libraryVersion(root, dir string) (string, bool) {
	soname := path.Join(root, dir, facts.LibraryML)
	present := s.roots.Host.Exists(soname)
	if real, err := s.roots.Host.Resolve(soname); present && err == nil && s.roots.Host.Exists(real) {
		if v := facts.LibraryVersion(path.Base(real)); v != "" {
			return v, true
		}
	}
	// An absolute link in a managed root points outside it when it is followed from
	// the host's /; the versioned file lies beside it all the same.
	files, err := list(s.roots.Host, path.Join(root, dir))
	if err != nil {
		return "", false
	}
	for _, f := range slices.Backward(files) {
		if v := facts.LibraryVersion(f); v != "" && strings.HasPrefix(f, strings.TrimSuffix(facts.LibraryML, "1")) {
			return v, true
		}
	}
	return "", present
}

// deviceNode returns the path of a device node, in the driver's own root or the
// host's; "" when it is in neither. A directory of that name, as container engines
// make for a missing bind source, is none.
func (s *Scanner) deviceNode(root, dev string) string {
	for _, p := range []string{path.Join("/", root, dev), dev} {
		seen, err := s.roots.Host.Observe([]plan.Key{{Path: p, Follow: true}})
		if err != nil {
			continue
		}
		if t := seen.Paths[p].Type; t != plan.TypeAbsent && t != plan.TypeDirectory {
			return p
		}
	}
	return ""
}

// Driver looks at the driver alone, for agents that need nothing else.
func (s *Scanner) Driver() v1alpha1.DriverState {
	var n facts.Node
	s.scanPCI(&n)
	s.scanDriver(&n)
	return n.Driver
}
