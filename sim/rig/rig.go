// Package rig puts a simulated GPU machine into a test's directory: its libraries,
// device files, PCI tree and state, so that code that opens NVML can be tested as it
// is. The dynamic linker binds a library's functions once a process: there is one
// rig at a time in a test program, always at the same path.
package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gpu-operator/sim/build"
	"gpu-operator/sim/hardware"
	"gpu-operator/sim/machine"
)

// Version is the version of the simulated driver.
const Version = "550.163.01"

// Rig is one machine.
type Rig struct {
	host hardware.Host
}

// New makes the machine of a node with count GPUs of a model, its driver built but
// not loaded; sim is the folder of the simulation's sources.
func New(t testing.TB, sim, model, node string, count int) *Rig {
	t.Helper()
	r := &Rig{host: hardware.Host{Root: filepath.Join(os.TempDir(), fmt.Sprintf("gpusim-rig-%d", os.Getpid()))}}
	check(t, os.Mkdir(r.host.Root, 0o755))
	t.Cleanup(func() { check(t, os.RemoveAll(r.host.Root)) })
	if err := build.Libraries(t.Context(), sim, Version, r.host.Root); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(sim, "machines", model+".yaml"))
	check(t, err)
	m, err := machine.ParseModel(model, data)
	check(t, err)
	made, err := machine.Make(node, m, count)
	check(t, err)
	text, err := machine.Format(made)
	check(t, err)
	file := filepath.Join(r.host.Root, hardware.MachineFile)
	check(t, os.MkdirAll(filepath.Dir(file), 0o755))
	check(t, os.WriteFile(file, text, 0o644))
	check(t, r.host.Boot())
	return r
}

// Load loads the driver.
func (r *Rig) Load(t testing.TB) {
	t.Helper()
	check(t, r.host.Load("/"))
}

// Unload takes the driver away, as if nobody used it.
func (r *Rig) Unload(t testing.TB) {
	t.Helper()
	check(t, r.host.Unload(func() ([]string, error) { return nil, nil }))
}

// Set changes the state of one GPU: key=value.
func (r *Rig) Set(t testing.TB, gpu int, pairs ...string) {
	t.Helper()
	check(t, r.host.Set(gpu, pairs))
}

// Library is the path of the management library.
func (r *Rig) Library() string {
	return filepath.Join(r.host.Root, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
}

// Sysfs is the root of the machine's sysfs.
func (r *Rig) Sysfs() string { return filepath.Join(r.host.Root, hardware.Tree, "sys") }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
