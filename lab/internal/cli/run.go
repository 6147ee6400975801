package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpu-operator/lab/internal/build"
	"gpu-operator/lab/internal/lab"
)

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "kubectl -- ARGUMENTS...",
		Short:   "Run kubectl as the cluster's administrator",
		Example: "  gpulab kubectl -- get pods -A",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), append([]string{"kubectl"}, args...))
		},
	}
}

func (a *app) helmCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "helm -- ARGUMENTS...",
		Short:   "Run helm as the cluster's administrator",
		Example: "  gpulab helm -- list -A",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), append([]string{"helm"}, args...), build.Helm)
		},
	}
}

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run -- COMMAND...",
		Short: "Run a command of this machine inside the lab's network, with KUBECONFIG set",
		Long: `run starts a command in the lab's network namespace, where the API server, the
nodes and the pods answer, with KUBECONFIG set and kubectl in PATH. It is how
tests reach the lab.`,
		Example: "  gpulab run -- go test ./test/e2e/...\n  gpulab run -- curl http://10.201.1.5:9400/metrics",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), args)
		},
	}
}

// inside runs argv in the lab's network and passes its exit code on.
func (a *app) inside(ctx context.Context, argv []string, tools ...string) error {
	l, err := a.open(ctx, a.Err)
	if err != nil {
		return err
	}
	cmd, err := l.Command(ctx, argv, tools...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return ExitCode(exit.ExitCode())
	}
	if err != nil {
		return fmt.Errorf("running %q inside the lab: %w", argv[0], err)
	}
	return nil
}

func (a *app) imageCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{Use: "image", Short: "Build container images, or load them on the nodes"}
	buildCmd := &cobra.Command{
		Use:   "build [IMAGE...]",
		Short: "Build images (all, or those named: gpu-operator, gpu-node, workload, pause, driver)",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.open(cmd.Context(), a.Err)
			if err != nil {
				return err
			}
			built, err := l.BuildImages(cmd.Context(), version, args...)
			if err != nil {
				return err
			}
			for _, b := range built {
				fmt.Fprintf(a.Out, "%s\t%s\n", b.Names[len(b.Names)-1], b.Tar)
			}
			return nil
		},
	}
	load := &cobra.Command{
		Use:   "load [IMAGE...]",
		Short: "Build images and import them on every node",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.open(cmd.Context(), a.Out)
			if err != nil {
				return err
			}
			return l.LoadImages(cmd.Context(), version, args...)
		},
	}
	cmd.PersistentFlags().StringVar(&version, "driver-version", lab.DefaultDriverVersion, "the driver image's version")
	cmd.AddCommand(buildCmd, load)
	return cmd
}

func (a *app) buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build COMPONENT...",
		Short: "Build or fetch programs that nodes run into the cache, ahead of their use",
		Long: `build fills the cache with components and prints the folder of each; the network is
needed only then. An unknown name is an error that lists the known ones.`,
		Example: "  gpulab build containerd-1.6",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			l, err := a.open(cmd.Context(), a.Err)
			if err != nil {
				return err
			}
			for _, name := range names {
				dir, err := l.Builder().Build(cmd.Context(), name)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.Out, dir)
			}
			return nil
		},
	}
}

func (a *app) assetsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "Build and print the programs that tests against an API server need",
		Long: `assets builds etcd and kube-apiserver (and kubectl, which comes with them) into
the cache, without root and without a lab, and prints where they are.`,
		Example: `  eval "$(gpulab assets)"; go test ./internal/cluster/...`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.open(cmd.Context(), a.Err)
			if err != nil {
				return err
			}
			dirs := map[string]string{}
			for _, c := range []string{build.Etcd, build.Kube} {
				if dirs[c], err = l.Builder().Build(cmd.Context(), c); err != nil {
					return err
				}
			}
			paths := [][2]string{
				{"TEST_ASSET_ETCD", filepath.Join(dirs[build.Etcd], "etcd")},
				{"TEST_ASSET_KUBE_APISERVER", filepath.Join(dirs[build.Kube], "kube-apiserver")},
				{"TEST_ASSET_KUBECTL", filepath.Join(dirs[build.Kube], "kubectl")},
			}
			if output == outputJSON {
				m := map[string]string{}
				for _, p := range paths {
					m[p[0]] = p[1]
				}
				return printJSON(a.Out, m)
			}
			w := tabwriter.NewWriter(a.Out, 0, 0, 1, ' ', 0)
			for _, p := range paths {
				fmt.Fprintf(w, "export %s=%s\n", p[0], p[1])
			}
			return w.Flush()
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
