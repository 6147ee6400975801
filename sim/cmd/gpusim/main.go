// Command gpusim is the node side of the simulated GPU machine: it shows the
// hardware at boot, stands in for modprobe, and changes GPUs' state at run time.
// Called as "modprobe" or "nvidia-driver" it plays these.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"gpu-operator/sim/hardware"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c := hardware.Command{Name: filepath.Base(os.Args[0]), Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	err := c.Run(ctx)
	if exit, ok := errors.AsType[hardware.ExitError](err); ok {
		os.Exit(int(exit))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
		os.Exit(1)
	}
}
