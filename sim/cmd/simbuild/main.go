// Command simbuild makes what the simulated GPU machine is placed on a node with:
// a driver root, and the description of a node's hardware.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"gpu-operator/sim/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "simbuild:", err)
		os.Exit(1)
	}
}

// run does `simbuild driver` or `simbuild machine`; it works from the root of the
// source tree.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: simbuild driver --version V --out DIR | simbuild machine --model M --gpus N --node NAME --out FILE")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	driver := flags.String("version", "550.163.01", "driver version")
	out := flags.String("out", "", "directory of the driver root, or file of the machine description")
	model := flags.String("model", "", "machine model, a file of sim/machines without .yaml")
	node := flags.String("node", "", "node name: serial numbers and uuids follow from it")
	gpus := flags.Int("gpus", 8, "number of GPUs")
	repo := flags.String("repo", ".", "root of the source tree")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *out == "" {
		return fmt.Errorf("--out is missing: it names what to write")
	}
	switch args[0] {
	case "driver":
		return build.DriverRoot(ctx, *repo, *driver, *out)
	case "machine":
		return describe(*repo, *model, *node, *gpus, *out)
	}
	return fmt.Errorf("unknown command %q: driver or machine", args[0])
}
