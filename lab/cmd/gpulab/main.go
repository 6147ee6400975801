// Command gpulab runs a Kubernetes cluster of real nodes with simulated GPUs on
// this machine.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gpu-operator/lab/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Execute(ctx, cli.NewCommand(cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	stop()
	os.Exit(code)
}
