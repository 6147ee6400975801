package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is the largest CRI answer in bytes that is accepted; a node with
// many containers answers with megabytes.
const maxMessage = 16 << 20

// Client asks a runtime over its CRI socket.
type Client struct {
	conn *grpc.ClientConn
	rt   cri.RuntimeServiceClient
}

// Dial returns a client for a socket; nothing is sent until the first question.
func Dial(socket string) (*Client, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connecting to runtime socket %q: %w", socket, err)
	}
	return &Client{conn: conn, rt: cri.NewRuntimeServiceClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Handler is a runtime handler as the running daemon knows it.
type Handler struct {
	// Name as RuntimeClasses name it.
	Name string
	// Type is its runtime type; empty when the daemon does not tell.
	Type string
	// Options are its options that are not at their zero value.
	Options map[string]any
}

// Status is what a running daemon knows.
type Status struct {
	// Name and Version of the runtime (containerd, 2.4.2).
	Name, Version string
	// Ready says that the runtime calls itself ready.
	Ready bool
	// Handlers by name.
	Handlers map[string]Handler
}

// Names returns the names of the handlers in order.
func (s Status) Names() []string { return slices.Sorted(maps.Keys(s.Handlers)) }

// Status asks for version and handlers.
func (c *Client) Status(ctx context.Context) (Status, error) {
	version, err := c.rt.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return Status{}, fmt.Errorf("asking the runtime for its version: %w", err)
	}
	answer, err := c.rt.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return Status{}, fmt.Errorf("asking the runtime for its status: %w", err)
	}
	s := Status{Name: version.RuntimeName, Version: version.RuntimeVersion}
	for _, condition := range answer.GetStatus().GetConditions() {
		if condition.Type == cri.RuntimeReady {
			s.Ready = condition.Status
		}
	}
	if s.Handlers, err = ParseHandlers([]byte(answer.Info["config"])); err != nil {
		return s, err
	}
	listed := map[string]bool{}
	for _, h := range answer.RuntimeHandlers {
		listed[h.Name] = true
	}
	if len(listed) > 0 { // the list is the word that the kubelet gets: what is not in it does not count
		maps.DeleteFunc(s.Handlers, func(name string, _ Handler) bool { return !listed[name] })
	}
	return s, nil
}

// ParseHandlers reads the handlers from the configuration that containerd's
// verbose status carries as JSON; empty input has none.
func ParseHandlers(config []byte) (map[string]Handler, error) {
	out := map[string]Handler{}
	if len(config) == 0 {
		return out, nil
	}
	var c struct {
		Containerd struct {
			Runtimes map[string]struct {
				TypeOld string         `json:"runtimeType"`
				Options map[string]any `json:"options"`
			} `json:"runtimes"`
		} `json:"containerd"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("decoding the runtime's configuration: %w", err)
	}
	for name, rt := range c.Containerd.Runtimes {
		h := Handler{Name: name, Type: rt.TypeOld, Options: map[string]any{}}
		for k, v := range rt.Options {
			if v != nil && v != "" && v != false && v != float64(0) {
				h.Options[k] = v
			}
		}
		out[name] = h
	}
	return out, nil
}

// Running returns the ids of the containers that run, with name and pod for people.
func (c *Client) Running(ctx context.Context) (map[string]string, error) {
	answer, err := c.rt.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("listing the runtime's containers: %w", err)
	}
	out := map[string]string{}
	for _, container := range answer.Containers {
		l := container.Labels
		out[container.Id] = l["io.kubernetes.pod.namespace"] + "/" + l["io.kubernetes.pod.name"] + "/" + l["io.kubernetes.container.name"]
	}
	return out, nil
}

// Sandbox is a Pod's sandbox that needs our binaries.
type Sandbox struct {
	// Pod is namespace/name.
	Pod string
	// Handler that it was made under; empty for the runtime's default.
	Handler string
}

// Sandboxes returns the running sandboxes that were made under one of the handlers
// or that run a binary below dir. One that was stopped (the Pod has ended and is
// kept for its logs) needs neither handler nor binary to be removed.
func (c *Client) Sandboxes(ctx context.Context, handlers []string, dir string) ([]Sandbox, error) {
	answer, err := c.rt.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the runtime's sandboxes: %w", err)
	}
	var out []Sandbox
	for _, sandbox := range answer.Items {
		if sandbox.State != cri.PodSandboxState_SANDBOX_READY {
			continue
		}
		uses := slices.Contains(handlers, sandbox.RuntimeHandler)
		if !uses {
			if uses, err = c.sandboxUses(ctx, sandbox.Id, dir); err != nil {
				return nil, err
			}
		}
		if uses {
			out = append(out, Sandbox{Pod: sandbox.GetMetadata().GetNamespace() + "/" + sandbox.GetMetadata().GetName(), Handler: sandbox.RuntimeHandler})
		}
	}
	slices.SortFunc(out, func(a, b Sandbox) int { return strings.Compare(a.Pod, b.Pod) })
	return out, nil
}

// sandboxUses says whether a sandbox's runtime is a binary below dir; this finds
// sandboxes of the default runtime, which carry no handler's name.
func (c *Client) sandboxUses(ctx context.Context, id, dir string) (bool, error) {
	answer, err := c.rt.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		if strings.Contains(err.Error(), "not found") { // removed since it was listed
			return false, nil
		}
		return false, fmt.Errorf("asking about sandbox %q: %w", id, err)
	}
	var info struct {
		RuntimeOptions map[string]any `json:"runtimeOptions"`
	}
	if raw := answer.Info["info"]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &info); err != nil {
			return false, fmt.Errorf("decoding status of sandbox %q: %w", id, err)
		}
	}
	for _, v := range info.RuntimeOptions {
		if s, ok := v.(string); ok && strings.HasPrefix(s, dir+"/") {
			return true, nil
		}
	}
	return false, nil
}
