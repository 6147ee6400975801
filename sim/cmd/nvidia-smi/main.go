// Command nvidia-smi is the one of the simulated driver.
package main

import (
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpu-operator/sim/smi"
)

func main() {
	os.Exit(smi.Run(os.Args[1:], nvml.New(), time.Now(), os.Stdout))
}
