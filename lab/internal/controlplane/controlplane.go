package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpu-operator/lab/internal/pki"
)

// ControlPlane is one lab's API.
type ControlPlane struct {
	// Dirs says where everything is.
	Dirs Dirs
	// Enter and Netns (a file below /run/netns) are the two ways into its network.
	Enter Enter
	Netns string
	// Now is the clock, for certificates.
	Now func() time.Time
	// Step is told what happens (may be nil).
	Step func(format string, args ...any)
}

// The longest waits for a component to answer, on a machine that is busy with
// other things.
const (
	etcdWait = 60 * time.Second
	apiWait  = 3 * time.Minute
	ctrlWait = 2 * time.Minute
)

// Authority opens the lab's certificate authority, making it on first use.
func (c *ControlPlane) Authority() (*pki.Authority, error) {
	return pki.Open(c.Dirs.pki(""), c.Now)
}

// Up starts what does not run and waits until the API serves and its controllers
// work. When a part is missing, all are started anew: a half-dead control plane
// is not worth understanding.
func (c *ControlPlane) Up(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return fmt.Errorf("preparing the control plane: %w", err)
	}
	procs := c.Dirs.processes()
	if dead := stopped(procs); len(dead) > 0 {
		if len(dead) < len(procs) {
			c.step("of the control plane %v had ended; starting all of it anew", dead)
		}
		if err := c.Down(ctx); err != nil {
			return err
		}
	}
	waits := map[string]func(context.Context) error{
		"etcd":           c.answers(etcdWait, etcdURL+"/health"),
		"kube-apiserver": c.answers(apiWait, APIServerURL+"/readyz"),
		// No pod can be made before the controllers made its service account.
		"kube-controller-manager": c.answers(ctrlWait, "https://127.0.0.1:10257/healthz",
			APIServerURL+"/api/v1/namespaces/default/serviceaccounts/default"),
		"kube-scheduler": c.answers(ctrlWait, "https://127.0.0.1:10259/readyz"),
	}
	for _, p := range procs {
		begun := c.Now()
		running := p.PID() != 0
		if !running {
			if err := portsFree(c.Netns, ports()[p.Name]); err != nil {
				return fmt.Errorf("starting %s: %w", p.Name, err)
			}
		}
		if err := p.Start(ctx, c.Enter); err != nil {
			return err
		}
		if err := c.wait(ctx, p, waits[p.Name]); err != nil {
			return err
		}
		if !running {
			c.step("%s answers: %s", p.Name, c.Now().Sub(begun).Round(100*time.Millisecond))
		}
	}
	return nil
}

// Down stops the control plane in the order that does not hang.
func (c *ControlPlane) Down(ctx context.Context) error {
	procs := c.Dirs.processes()
	slices.Reverse(procs)
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Status says of each program whether it runs (its pid, or 0), in start order.
func (c *ControlPlane) Status() []ProcessStatus {
	var out []ProcessStatus
	for _, p := range c.Dirs.processes() {
		out = append(out, ProcessStatus{Name: p.Name, PID: p.PID(), Log: p.LogFile()})
	}
	return out
}

// ProcessStatus is one line of the lab's status.
type ProcessStatus struct {
	Name string `json:"name"`
	PID  int    `json:"pid"` // 0: it does not run
	Log  string `json:"log"`
}

// Client makes HTTP calls as the cluster's administrator from inside the lab's
// network.
func (c *ControlPlane) Client() (*http.Client, error) {
	cert, err := tls.LoadX509KeyPair(c.Dirs.pki("admin.crt"), c.Dirs.pki("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	ca, err := os.ReadFile(c.Dirs.pki("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext:     Dialer(c.Netns),
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}}, nil
}

// answers makes a wait until a GET of each url, in turn, has said 200.
func (c *ControlPlane) answers(within time.Duration, urls ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := c.Client()
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for len(urls) > 0 {
			last := get(ctx, client, urls[0])
			if last == nil {
				urls = urls[1:]
				continue
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("no answer from %s within %s: %w", urls[0], within, last)
			case <-tick.C:
			}
		}
		return nil
	}
}

// get is nil when url answers 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	defer resp.Body.Close()
	const enough = 2000
	body, err := io.ReadAll(io.LimitReader(resp.Body, enough))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", url, resp.Status, body)
	}
	return nil
}

// wait waits for a process to answer, and gives up at once when it ends.
func (c *ControlPlane) wait(ctx context.Context, p Process, answers func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := errors.New("the process ended")
	go func() {
		tick := time.NewTicker(4 * poll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if p.PID() == 0 {
					cancel(ended)
					return
				}
			}
		}
	}()
	err := answers(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, ended) {
		err = cause
	}
	return fmt.Errorf("starting %s: %w\n%s", p.Name, err, p.LogTail())
}

// prepare writes certificates, client configurations and the audit policy.
func (c *ControlPlane) prepare() error {
	ca, err := c.Authority()
	if err != nil {
		return err
	}
	dir := c.Dirs.pki("")
	if err := pki.EnsureSigningKey(dir, "sa"); err != nil {
		return err
	}
	for _, cert := range []struct {
		file    string
		subject pki.Subject
		config  string // the kubeconfig to write, "" for none
	}{
		{"apiserver", pki.Subject{
			Name: "kube-apiserver", IPs: []string{GatewayIP, ServiceIP, "127.0.0.1"},
			DNS: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		}, ""},
		{"loopback", pki.Subject{Name: "loopback", IPs: []string{"127.0.0.1"}, DNS: []string{"localhost"}}, ""},
		{"apiserver-kubelet", pki.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}, ""},
		{"kube-controller-manager", pki.Subject{Name: "system:kube-controller-manager"}, c.Dirs.kubeconfig("kube-controller-manager")},
		{"kube-scheduler", pki.Subject{Name: "system:kube-scheduler"}, c.Dirs.kubeconfig("kube-scheduler")},
		{"admin", pki.Subject{Name: "gpulab-admin", Groups: []string{"system:masters"}}, c.Dirs.AdminKubeconfig()},
	} {
		pair, err := ca.Ensure(dir, cert.file, cert.subject)
		if err != nil {
			return err
		}
		if cert.config == "" {
			continue
		}
		if err := os.WriteFile(cert.config, pki.Kubeconfig(APIServerURL, ca.PEM(), pair), 0o600); err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", cert.file, err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.Dirs.State, "audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

func (c *ControlPlane) step(format string, args ...any) {
	if c.Step != nil {
		c.Step(format, args...)
	}
}

// stopped lists the processes that do not run.
func stopped(procs []Process) []string {
	var out []string
	for _, p := range procs {
		if p.PID() == 0 {
			out = append(out, p.Name)
		}
	}
	return out
}
