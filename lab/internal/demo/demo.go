// Package demo shows the project's main job on a lab: from one ClusterPolicy to
// a Pod that runs on its GPU. It does what a person would do, with the same
// commands, and prints each before it runs.
package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Options say what the demo runs with.
type Options struct {
	// Gpulab is the lab's own command.
	Gpulab string
	// Repo is the root of the source tree (the chart is there).
	Repo string
	// Nodes is the number of GPU nodes; Machine is what each has (8xH100-SXM5-80GB).
	Nodes   int
	Machine string
	// Keep leaves an existing lab as it is instead of starting anew.
	Keep bool
	Out  io.Writer
	// Now is the clock for the timings that are printed.
	Now func() time.Time
}

// values are the chart's values: the driver is part of the nodes' OS image, and
// the simulated kernel shows its GPU files below /run/gpusim.
const values = `driver:
  enabled: false
hostRoots:
  sysfs: /run/gpusim/sys
  procfs: /run/gpusim/proc
`

// podManifest is the Pod of an ML engineer.
const podManifest = `apiVersion: v1
kind: Pod
metadata: {name: gpu-pod, namespace: default}
spec:
  runtimeClassName: nvidia
  restartPolicy: Never
  containers:
  - name: main
    image: gpu-operator.local/workload:dev
    imagePullPolicy: IfNotPresent
    command: ["/bin/sh", "-c", "nvidia-smi -L && nvidia-smi"]
    resources: {limits: {nvidia.com/gpu: 1}}
`

// readyWithin bounds the wait for the nodes' gates.
const readyWithin = 5 * time.Minute

// demo carries the options and the start of the clock through the steps.
type demo struct {
	Options

	start time.Time
}

// Run tells the whole story and returns the first error, with what to look at.
func Run(ctx context.Context, o Options) error {
	d := demo{Options: o, start: o.Now()}
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"A Kubernetes cluster of real nodes with simulated GPUs", d.up},
		{"The operator and one ClusterPolicy, by the Helm chart", d.install},
		{"Every GPU node passes its gates", d.waitReady},
		{"A Pod asks for one GPU and sees exactly that one", d.runPod},
		{"The fleet at a glance", d.show},
	} {
		d.title(step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(step.title[:1])+step.title[1:], err)
		}
	}
	return nil
}

// title prints a step's heading with the time since the start.
func (d demo) title(s string) {
	fmt.Fprintf(d.Out, "\n=== [%s] %s\n", d.Now().Sub(d.start).Round(time.Second), s)
}

// run prints and runs one of the lab's commands.
func (d demo) run(ctx context.Context, stdin string, args ...string) error {
	fmt.Fprintf(d.Out, "$ gpulab %s\n", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, d.Gpulab, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), d.Out, d.Out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running gpulab %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// output runs one of the lab's commands silently and returns what it printed.
func (d demo) output(ctx context.Context, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.Gpulab, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running gpulab %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func (d demo) up(ctx context.Context) error {
	if !d.Keep {
		if err := d.run(ctx, "", "down"); err != nil {
			return err
		}
	}
	return d.run(ctx, "", "up", "--nodes", fmt.Sprint(d.Nodes), "--gpus", d.Machine, "--driver", "host")
}

func (d demo) install(ctx context.Context) error {
	file, err := os.CreateTemp("", "gpulab-demo-*.yaml")
	if err != nil {
		return fmt.Errorf("creating the chart's values file: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(values)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the chart's values file: %w", err)
	}
	return d.run(ctx, "", "helm", "--", "upgrade", "--install", "gpu-operator",
		filepath.Join(d.Repo, "deploy/chart/gpu-operator"), "--namespace", "gpu-operator", "--create-namespace",
		"--values", file.Name())
}

// gateColumns are what the demo follows of each node.
const gateColumns = "custom-columns=NODE:.metadata.name,STAGE:.status.stage,GATES:.status.gates[*].state,REASON:.status.gates[-1].reason"

// waitReady follows the nodes' stages, printing each change, until all are ready.
func (d demo) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	seen, last := map[string]string{}, ""
	for {
		out, err := d.output(ctx, "kubectl", "--", "get", "gpunodes", "--no-headers", "-o", gateColumns)
		if err == nil {
			last = out
			ready := 0
			lines := bufio.NewScanner(strings.NewReader(out))
			for lines.Scan() {
				f := strings.Fields(lines.Text())
				if len(f) < 2 {
					continue
				}
				if seen[f[0]] != lines.Text() {
					seen[f[0]] = lines.Text()
					fmt.Fprintf(d.Out, "%6s  %s\n", d.Now().Sub(d.start).Round(time.Second), lines.Text())
				}
				if f[1] == "Ready" {
					ready++
				}
			}
			if ready == d.Nodes {
				return d.run(ctx, "", "kubectl", "--", "wait", "--for=condition=Ready", "clusterpolicy/cluster-policy", "--timeout=60s")
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the nodes were not ready within %s; last seen:\n%s(look at `gpulab kubectl -- get gpunodes -o yaml`)", readyWithin, last)
		case <-tick.C:
		}
	}
}

func (d demo) runPod(ctx context.Context) error {
	if err := d.run(ctx, "", "kubectl", "--", "delete", "pod", "gpu-pod", "--ignore-not-found"); err != nil {
		return err
	}
	fmt.Fprint(d.Out, podManifest)
	if err := d.run(ctx, podManifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		return err
	}
	if err := d.run(ctx, "", "kubectl", "--", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/gpu-pod", "--timeout=120s"); err != nil {
		describe, _ := d.output(ctx, "kubectl", "--", "describe", "pod", "gpu-pod")
		return fmt.Errorf("%w\n%s", err, describe)
	}
	logs, err := d.output(ctx, "kubectl", "--", "logs", "gpu-pod")
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "$ gpulab kubectl -- logs gpu-pod\n%s", logs)
	if n := strings.Count(logs, "(UUID: GPU-"); n != 1 {
		return fmt.Errorf("the Pod asked for one GPU and saw %d", n)
	}
	return nil
}

func (d demo) show(ctx context.Context) error {
	if err := d.run(ctx, "", "kubectl", "--", "get", "gpunodes"); err != nil {
		return err
	}
	if err := d.run(ctx, "", "kubectl", "--", "get", "nodes", "-L",
		"nvidia.com/gpu.deploy.container-toolkit,nvidia.com/gpu.deploy.device-plugin,nvidia.com/gpu.deploy.gpu-feature-discovery,nvidia.com/gpu.deploy.dcgm-exporter,nvidia.com/gpu.product,nvidia.com/gpu.memory"); err != nil {
		return err
	}
	prints, err := d.output(ctx, "kubectl", "--", "get", "gpunodes", "-o", "jsonpath={.items[*].status.fingerprint.hash}")
	if err != nil {
		return err
	}
	hashes := strings.Fields(prints)
	for _, h := range hashes {
		if h != hashes[0] {
			return fmt.Errorf("the nodes' fingerprints differ: %s", prints)
		}
	}
	fmt.Fprintf(d.Out, "\nfingerprint equal on %d nodes: %s\n", len(hashes), hashes[0])
	fmt.Fprintf(d.Out, "The lab is still up (gpulab is %s): try `gpulab node add gpu-%d`, `gpulab host-diff gpu-1`, `gpulab gpu set gpu-1 0 temperature=91`; `gpulab down` ends it.\n", d.Gpulab, d.Nodes+1)
	return nil
}
