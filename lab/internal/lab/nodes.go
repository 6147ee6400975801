package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gpu-operator/lab/internal/build"
	"gpu-operator/lab/internal/controlplane"
	"gpu-operator/lab/internal/node"
	"gpu-operator/lab/internal/pki"
)

// OpenNode finds a node of the lab; an unknown name is an error that lists the
// known ones.
func (l *Lab) OpenNode(name string) (*node.Node, error) {
	s, err := l.Read()
	if err != nil {
		return nil, err
	}
	if _, err := s.Find(name); err != nil {
		return nil, err
	}
	return node.Open(l.State, name)
}

// startNode makes a node that is not there yet and starts it.
func (l *Lab) startNode(ctx context.Context, n Node, images []string) error {
	begun := l.Now()
	opened, err := node.Open(l.State, n.Name)
	if err != nil {
		spec, err := l.spec(ctx, n, images)
		if err != nil {
			return fmt.Errorf("describing node %q: %w", n.Name, err)
		}
		if opened, err = node.Create(ctx, spec); err != nil {
			return fmt.Errorf("creating node %q: %w", n.Name, err)
		}
	}
	if opened.Leader() != 0 {
		return nil
	}
	if err := opened.Start(ctx); err != nil {
		return fmt.Errorf("starting node %q: %w", n.Name, err)
	}
	l.Step("node %s (%s, driver %s, %s) has booted: %s", n.Name, n.Hardware(), n.driver(), n.Runtime, l.since(begun))
	return nil
}

// driver describes the node's driver for people.
func (n Node) driver() string { return strings.TrimSpace(n.Driver + " " + n.DriverVersion) }

func (l *Lab) since(t time.Time) time.Duration { return l.Now().Sub(t).Round(100 * time.Millisecond) }

// spec gathers all that a node is made from.
func (l *Lab) spec(ctx context.Context, n Node, images []string) (node.Spec, error) {
	spec := node.Spec{
		Name: n.Name, Index: n.Index, IP: n.IP(), PodCIDR: n.PodCIDR(),
		Runtime: n.Runtime, Driver: n.Driver, DriverVersion: n.DriverVersion,
		Images: images, StateDir: l.State, Labels: n.Labels,
	}
	ca, err := l.ControlPlane().Authority()
	if err != nil {
		return spec, err
	}
	client, err := ca.Issue(pki.Subject{Name: "system:node:" + n.Name, Groups: []string{"system:nodes"}})
	if err != nil {
		return spec, err
	}
	serving, err := ca.Issue(pki.Subject{Name: n.Name, IPs: []string{n.IP()}, DNS: []string{n.Name}})
	if err != nil {
		return spec, err
	}
	spec.CA, spec.ServingCert, spec.ServingKey = ca.PEM(), serving.Cert, serving.Key
	spec.Kubeconfig = pki.Kubeconfig(controlplane.APIServerURL, ca.PEM(), client)
	if spec.Bin, err = l.binaries(ctx, n); err != nil {
		return spec, err
	}
	if n.GPUs > 0 {
		spec.MachineFile, err = l.machineFile(ctx, n)
	}
	return spec, err
}

// binaries builds what runs on a node.
func (l *Lab) binaries(ctx context.Context, n Node) (node.Binaries, error) {
	var b node.Binaries
	runtime := build.Containerd
	if n.Runtime == RuntimeContainerd16 {
		runtime = build.Containerd16
	}
	dirs := map[string]string{}
	for _, c := range []string{build.Kube, runtime, build.Runc, build.CNI} {
		dir, err := l.builder.Build(ctx, c)
		if err != nil {
			return b, err
		}
		dirs[c] = dir
	}
	b.Kubelet = filepath.Join(dirs[build.Kube], "kubelet")
	b.Containerd = filepath.Join(dirs[runtime], "containerd")
	b.Shim = filepath.Join(dirs[runtime], "containerd-shim-runc-v2")
	b.Ctr = filepath.Join(dirs[runtime], "ctr")
	b.Runc = filepath.Join(dirs[build.Runc], "runc")
	if runtime == build.Containerd16 {
		b.Runc = filepath.Join(dirs[runtime], "runc")
	}
	b.CNIDir = dirs[build.CNI]
	var err error
	if n.Runtime == RuntimeK3s {
		if b.K3s, err = l.builder.BuildProduct(ctx, "k3slike"); err != nil {
			return b, err
		}
	}
	if b.Gpusim, err = l.builder.BuildProduct(ctx, "gpusim"); err != nil {
		return b, err
	}
	if n.Driver == DriverHost {
		b.DriverRoot, err = l.DriverRoot(ctx, n.DriverVersion)
	}
	return b, err
}

// readyWait is the longest time from a node's boot to Ready, on a busy machine.
const readyWait = 4 * time.Minute

// waitReady waits until the API says Ready of every node, in its present boot.
func (l *Lab) waitReady(ctx context.Context, nodes []Node) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	begun := l.Now()
	var wg sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		wg.Go(func() {
			if errs[i] = l.waitOne(ctx, n); errs[i] == nil {
				l.Step("node %s is Ready: %s", n.Name, l.since(begun))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (l *Lab) waitOne(ctx context.Context, n Node) error {
	opened, err := node.Open(l.State, n.Name)
	if err != nil {
		return fmt.Errorf("opening node %q: %w", n.Name, err)
	}
	const poll = 300 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	boot := ""
	var last error
	for {
		if boot == "" {
			boot = bootID(ctx, opened)
		}
		var api corev1.Node
		if last = l.get(ctx, "/api/v1/nodes/"+n.Name, &api); last == nil {
			last = notReady(api, boot)
		}
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %q is not Ready: %w (`gpulab exec %s -- journalctl -u kubelet -u containerd` tells more)", n.Name, last, n.Name)
		case <-tick.C:
		}
	}
}

// bootID asks a node for its boot id; "" when it does not answer yet.
func bootID(ctx context.Context, n *node.Node) string {
	var out strings.Builder
	code, err := n.Exec(ctx, []string{"cat", "/proc/sys/kernel/random/boot_id"}, nil, &out, io.Discard)
	if err != nil || code != 0 {
		return ""
	}
	return strings.TrimSpace(out.String())
}

// notReady says why a node is not Ready in the given boot; nil: it is.
func notReady(n corev1.Node, boot string) error {
	if n.Status.NodeInfo.BootID != boot {
		return fmt.Errorf("its kubelet has not reported boot %q yet (but %q)", boot, n.Status.NodeInfo.BootID)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	return errors.New("it has no Ready condition")
}

// get reads one object of the API.
func (l *Lab) get(ctx context.Context, path string, into any) error {
	return l.request(ctx, http.MethodGet, path, into)
}

func (l *Lab) request(ctx context.Context, method, path string, into any) error {
	client, err := l.ControlPlane().Client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, controlplane.APIServerURL+path, nil)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the API server: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && method == http.MethodDelete {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: the API server answered %s", method, path, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", path, err)
	}
	return nil
}

// forget takes a node that is gone out of the API: its pods (nobody is left to
// end them) and its Node object.
func (l *Lab) forget(ctx context.Context, name string) error {
	var pods corev1.PodList
	if err := l.get(ctx, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+name, &pods); err != nil {
		return fmt.Errorf("listing the pods of node %q: %w", name, err)
	}
	var errs []error
	for _, p := range pods.Items {
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s?gracePeriodSeconds=0", p.Namespace, p.Name)
		errs = append(errs, l.request(ctx, http.MethodDelete, path, &json.RawMessage{}))
	}
	errs = append(errs, l.request(ctx, http.MethodDelete, "/api/v1/nodes/"+name, &json.RawMessage{}))
	return errors.Join(errs...)
}

// Machines lists the machine models of the simulation.
func (l *Lab) Machines() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(l.Repo, "sim", "machines", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing machine models: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no machine models in %s", filepath.Join(l.Repo, "sim", "machines"))
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names, nil
}

// readyWord is the status of a node's Ready condition; "" without an answer.
func (l *Lab) readyWord(ctx context.Context, name string) string {
	var n corev1.Node
	if l.get(ctx, "/api/v1/nodes/"+name, &n) != nil {
		return ""
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status)
		}
	}
	return string(corev1.ConditionUnknown)
}
