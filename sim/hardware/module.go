package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpu-operator/sim/machine"
)

// Majors of the driver's character devices: 195 is NVIDIA's own, uvm's is given
// by the kernel at load, here always this one.
const (
	majorNVIDIA  = 195
	majorUVM     = 510
	minorControl = 255
	minorModeset = 254
)

// ErrInUse says that a module cannot be taken away while somebody holds it.
var ErrInUse = errors.New("module nvidia is in use")

// Version is the version of the driver in a driver root, by the name of the library
// that its users open: one that a link names, else the only one there.
func (h Host) Version(driverRoot string) (string, error) {
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64"} {
		const library = "libnvidia-ml.so."
		if to, err := os.Readlink(h.path(driverRoot, dir, library+"1")); err == nil {
			return strings.TrimPrefix(filepath.Base(to), library), nil
		}
		found, err := filepath.Glob(h.path(driverRoot, dir, library+"*.*"))
		if err != nil {
			return "", fmt.Errorf("looking for the driver's library: %w", err)
		}
		if len(found) > 1 {
			return "", fmt.Errorf("driver root %q has %d versions of the driver and no link %s1 that chooses one", driverRoot, len(found), library)
		}
		if len(found) > 0 {
			return strings.TrimPrefix(filepath.Base(found[0]), "libnvidia-ml.so."), nil
		}
	}
	return "", fmt.Errorf("no driver in %q: there is no libnvidia-ml.so.<version> in its library directories", driverRoot)
}

// Loaded is the version of the loaded module; "" when none is.
func (h Host) Loaded() string {
	data, err := os.ReadFile(h.path(mod, "nvidia/version"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Load loads the modules of the driver in driverRoot: with the hardware's GPUs
// bound, device nodes made, and the state record placed where the driver's
// libraries find it. A loaded module of the same version is left as it is.
func (h Host) Load(driverRoot string) error {
	return h.locked(func() error { return h.load(driverRoot) })
}

func (h Host) load(driverRoot string) error {
	m, err := h.Machine()
	if err != nil {
		return err
	}
	if len(m.GPUs) == 0 {
		return errors.New("loading module nvidia: no such device (this machine has no GPU)")
	}
	version, err := h.Version(driverRoot)
	if err != nil {
		return err
	}
	if loaded := h.Loaded(); loaded != "" && loaded != version {
		return fmt.Errorf("loading module nvidia %s: version %s is loaded: %w", version, loaded, ErrInUse)
	} else if loaded == version {
		return h.placeRecord(driverRoot, version, nil)
	}
	record := machine.NewRecord(m, version, time.Now())
	if err := h.dropRecords(driverRoot); err != nil {
		return err
	}
	if err := h.placeRecord(driverRoot, version, &record); err != nil {
		return err
	}
	if err := h.deviceNodes(m); err != nil {
		return err
	}
	if err := h.showMIG(record); err != nil {
		return err
	}
	return h.showModule(m, version)
}

// dropRecords removes what drivers of former boots left in a driver root: nothing
// else tells a library that its module is not the one that is loaded.
func (h Host) dropRecords(driverRoot string) error {
	old, err := filepath.Glob(h.path(recordPath(driverRoot, "*")))
	if err != nil {
		return fmt.Errorf("looking for former drivers' state: %w", err)
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("removing a former driver's state: %w", err)
		}
	}
	return nil
}

// locked runs f while no other process changes the driver's state.
func (h Host) locked(f func() error) error {
	if err := os.MkdirAll(h.path(Tree), 0o755); err != nil {
		return fmt.Errorf("making the simulated kernel's directory: %w", err)
	}
	lock, err := os.OpenFile(h.path(Tree, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the lock of the driver's state: %w", err)
	}
	defer lock.Close() // unlocks
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("locking the driver's state: %w", err)
	}
	return f()
}

// Set changes values of one GPU of the loaded driver: key=value, as machine.Set
// takes them. Changes by several processes at once all happen.
func (h Host) Set(gpu int, pairs []string) error {
	return h.locked(func() error {
		now, err := h.Record()
		if err != nil {
			return err
		}
		next, err := machine.Set(now, gpu, pairs, time.Now())
		if err != nil {
			return err
		}
		if err := h.store(next); err != nil {
			return err
		}
		if !slices.ContainsFunc(pairs, func(p string) bool { return strings.HasPrefix(p, "mig=") }) {
			return nil
		}
		return h.showMIG(next)
	})
}

// recordPath is where the libraries of a driver root look for the record.
func recordPath(driverRoot, version string) string {
	return filepath.Join(driverRoot, "lib/firmware/nvidia", version, "gsp_sim.bin")
}

// recordList names the file that lists every place where the record lies.
const recordList = Tree + "/records"

// placeRecord writes the record into a driver root; nil means the state as it is.
func (h Host) placeRecord(driverRoot, version string, r *machine.Record) error {
	path := recordPath(driverRoot, version)
	if r == nil {
		if _, err := os.Stat(h.path(path)); err == nil {
			return nil
		}
		have, err := h.Record()
		if err != nil {
			return err
		}
		r = &have
	}
	data, err := machine.FormatRecord(*r)
	if err != nil {
		return err
	}
	if err := h.write(path, string(data)); err != nil {
		return err
	}
	places, err := h.places()
	if err != nil {
		return err
	}
	if slices.Contains(places, path) {
		return nil
	}
	return h.write(recordList, strings.Join(append(places, path), "\n")+"\n")
}

// places are the files that hold the record.
func (h Host) places() ([]string, error) {
	data, err := os.ReadFile(h.path(recordList))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading where the state lies: %w", err)
	}
	return strings.Fields(string(data)), nil
}

// Record is the driver's present state; an error when none is loaded.
func (h Host) Record() (machine.Record, error) {
	places, err := h.places()
	if err != nil {
		return machine.Record{}, err
	}
	for _, p := range places {
		data, err := os.ReadFile(h.path(p))
		if err == nil {
			return machine.ParseRecord(data)
		}
	}
	return machine.Record{}, errors.New("no driver is loaded: there is no state to show or change")
}

// store writes a record to every place, in place: libraries in containers have
// these very files mounted.
func (h Host) store(r machine.Record) error {
	data, err := machine.FormatRecord(r)
	if err != nil {
		return err
	}
	places, err := h.places()
	if err != nil {
		return err
	}
	for _, p := range places {
		f, err := os.OpenFile(h.path(p), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // that driver root is gone
		}
		if err != nil {
			return fmt.Errorf("opening the state in %q: %w", p, err)
		}
		_, err = f.WriteAt(data, 0)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("writing the state in %q: %w", p, err)
		}
	}
	return nil
}

// node makes one device node with mode 0666, as the driver's own tool does.
func (h Host) node(name string, major, minor int) error {
	path := h.path("dev", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the directory of device %q: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing device %q: %w", name, err)
	}
	if !h.Real {
		return os.WriteFile(path, fmt.Appendf(nil, "c %d %d\n", major, minor), 0o600)
	}
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(uint32(major), uint32(minor)))); err != nil {
		return fmt.Errorf("making device %q: %w", name, err)
	}
	return os.Chmod(path, 0o666) // whatever the umask is
}

// deviceNodes makes the nodes of all GPUs and of the driver itself.
func (h Host) deviceNodes(m machine.Machine) error {
	for _, g := range m.GPUs {
		if err := h.node(fmt.Sprintf("nvidia%d", g.Minor), majorNVIDIA, g.Minor); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		name         string
		major, minor int
	}{
		{"nvidiactl", majorNVIDIA, minorControl},
		{"nvidia-modeset", majorNVIDIA, minorModeset},
		{"nvidia-uvm", majorUVM, 0},
		{"nvidia-uvm-tools", majorUVM, 1},
	} {
		if err := h.node(n.name, n.major, n.minor); err != nil {
			return err
		}
	}
	return nil
}

// showModule shows what the kernel shows of a loaded driver; the version last,
// since that is what others take for "loaded".
func (h Host) showModule(m machine.Machine, version string) error {
	files := map[string]string{
		proc + "/driver/nvidia/params":  "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
		proc + "/driver/nvidia/version": fmt.Sprintf("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (gpusim)\nGCC version:  simulated\n", version),
		proc + "/modules": kernelModules + "nvidia_uvm 4956160 0 - Live 0x0000000000000000\nnvidia_modeset 1355776 0 - Live 0x0000000000000000\n" +
			"nvidia 54120448 2 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000\n",
		proc + "/devices": strings.Replace(kernelDevices, "\n\nBlock", fmt.Sprintf(
			"\n%d nvidia\n%d nvidia-modeset\n%d nvidiactl\n%d nvidia-caps\n%d nvidia-uvm\n\nBlock", majorNVIDIA, majorNVIDIA, majorNVIDIA, majorCaps, majorUVM), 1),
		mod + "/nvidia/refcnt":         "2\n",
		mod + "/nvidia_uvm/refcnt":     "0\n",
		mod + "/nvidia_modeset/refcnt": "0\n",
	}
	for _, g := range m.GPUs {
		files[fmt.Sprintf("%s/driver/nvidia/gpus/%s/information", proc, g.Bus)] = fmt.Sprintf(
			"Model: \t\t %s\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %d\n", g.Product, g.Values["uuid"], g.Bus, g.Minor)
	}
	for path, content := range files {
		if err := h.write(path, content); err != nil {
			return err
		}
	}
	for _, g := range m.GPUs {
		link := h.path(pci, g.Bus, "driver")
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("binding %s: %w", g.Bus, err)
		}
		if err := os.Symlink("../../../../bus/pci/drivers/nvidia", link); err != nil {
			return fmt.Errorf("binding %s: %w", g.Bus, err)
		}
	}
	return h.write(mod+"/nvidia/version", version+"\n")
}

// Unload takes the modules away. inUse says who holds a device; a held module stays.
func (h Host) Unload(inUse func() ([]string, error)) error {
	return h.locked(func() error { return h.unload(inUse) })
}

func (h Host) unload(inUse func() ([]string, error)) error {
	if h.Loaded() == "" {
		return nil
	}
	holders, err := inUse()
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		return fmt.Errorf("unloading module nvidia: held by %s: %w", strings.Join(holders, ", "), ErrInUse)
	}
	m, err := h.Machine()
	if err != nil {
		return err
	}
	places, err := h.places()
	if err != nil {
		return err
	}
	gone := []string{mod + "/nvidia", mod + "/nvidia_uvm", mod + "/nvidia_modeset", proc + "/driver/nvidia", proc + "/driver/nvidia-caps", capsDir, recordList,
		"dev/nvidiactl", "dev/nvidia-modeset", "dev/nvidia-uvm", "dev/nvidia-uvm-tools"}
	for _, g := range m.GPUs {
		gone = append(gone, fmt.Sprintf("dev/nvidia%d", g.Minor), filepath.Join(pci, g.Bus, "driver"))
	}
	for _, p := range append(gone, places...) {
		if err := os.RemoveAll(h.path(p)); err != nil {
			return fmt.Errorf("unloading module nvidia: %w", err)
		}
	}
	if err := h.write(proc+"/modules", kernelModules); err != nil {
		return err
	}
	return h.write(proc+"/devices", kernelDevices)
}

// Holders lists the processes that use the driver: its libraries keep the state
// record open as long as they are initialised.
func (h Host) Holders() ([]string, error) {
	links, err := filepath.Glob(h.path("proc/[0-9]*/fd/*"))
	if err != nil {
		return nil, fmt.Errorf("looking for users of the driver: %w", err)
	}
	var holders []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasSuffix(to, "/gsp_sim.bin") {
			holders = append(holders, fmt.Sprintf("process %s (%s)", strings.Split(strings.TrimPrefix(l, h.path("proc")+"/"), "/")[0], to))
		}
	}
	return holders, nil
}
