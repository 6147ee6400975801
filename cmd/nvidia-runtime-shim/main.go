// Command nvidia-runtime-shim stands on the host under the names that a container
// runtime calls as its OCI runtime. It finds its own directory, points NVIDIA's
// runtime beside it to the configuration that belongs to its name, and becomes
// it. It is static, takes no arguments of its own and starts no other process, so
// that hosts without a shell or a C library of their own run it too.
//
// A container that asks for no GPU must start whatever state the toolkit is in:
// when NVIDIA's runtime cannot be executed, the shim becomes runc instead, except
// to create a container that asks for devices, which would silently lack them.
// Whether the kernel module is loaded does not matter here: in CDI mode NVIDIA's
// runtime touches no driver for a container that names no device, and one that
// does name one must fail rather than start without.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	self, err := selfPath(os.Args[0], os.Readlink)
	if err != nil {
		fail(err)
	}
	c := command(self, os.Args, os.Environ())
	err = syscall.Exec(c.path, c.args, c.env)
	if why := needsNVIDIA(self, os.Args, os.ReadFile); why != "" {
		fail(fmt.Errorf("executing %q: %w; the container %s, so it is not started without", c.path, err, why))
	}
	for _, runc := range lowLevel(os.Getenv("PATH")) {
		args := append([]string{runc}, os.Args[1:]...)
		_ = syscall.Exec(runc, args, os.Environ()) // returns only when it is not there
	}
	fail(fmt.Errorf("executing %q: %w; no runc or crun found either", c.path, err))
}

// fail ends the program as a runtime that failed does.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "nvidia-runtime-shim: "+err.Error())
	os.Exit(1)
}
