// Command gpu-node is what the GPU operator runs on nodes: one subcommand a step.
package main

import (
	"os"

	"gpu-operator/internal/cli/node"
)

func main() {
	os.Exit(node.Execute(node.NewCommand()))
}
