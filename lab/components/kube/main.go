// Command kube is one multi-call binary for everything that the lab runs from
// k8s.io/kubernetes: the program to be is chosen by the name it is called by
// (or, when called as "kube", by its first argument). Linking once instead of
// five times saves most of the build's time and disk.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"context"
)

// programs is the table of what this binary can be.
func programs() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
	}
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := programs()[name]; !ok && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	build, ok := programs()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "kube: %q is none of kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl\n", name)
		os.Exit(2)
	}
	cmd := build()
	if name == "kubectl" {
		if err := cli.RunNoErrOutput(cmd); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Run(cmd))
}
