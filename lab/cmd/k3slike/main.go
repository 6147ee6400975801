// Command k3slike is /usr/local/bin/k3s of a node whose containerd is run as k3s does.
package main

import (
	"fmt"
	"os"

	"gpu-operator/lab/internal/k3slike"
)

func main() {
	if err := k3slike.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "k3slike: %v\n", err)
		os.Exit(1)
	}
}
