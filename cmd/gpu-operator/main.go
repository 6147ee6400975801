// Command gpu-operator reconciles ClusterPolicies.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"gpu-operator/internal/cli/operator"
)

func main() {
	if err := operator.NewCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "gpu-operator: %v\n", err)
		os.Exit(2)
	}
}
