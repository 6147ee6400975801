package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"gpu-operator/internal/names"
)

// maxAnswer bounds the kubelet's answer: a few hundred containers with their devices
// are far below it.
const maxAnswer = 16 << 20

// Owner is the container that has a device.
type Owner struct {
	Namespace, Pod, Container string
}

// Kubelet is the kubelet's list of who has what.
type Kubelet struct {
	conn      *grpc.ClientConn
	client    v1.PodResourcesListerClient
	socket    string
	resources []string
}

// NewKubelet returns the kubelet behind a socket; resources are names of resources
// beside those of GPUs and their partitions whose devices are GPUs. Nothing is
// dialled yet.
func NewKubelet(socket string, resources []string) (*Kubelet, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("dialling %q: %w", socket, err)
	}
	return &Kubelet{conn: conn, client: v1.NewPodResourcesListerClient(conn), socket: socket, resources: resources}, nil
}

// Close ends the connection.
func (k *Kubelet) Close() error { return k.conn.Close() }

// Owners returns the owner of each GPU or partition that a container has, by UUID.
// Of several containers that share one, the first by name counts.
func (k *Kubelet) Owners(ctx context.Context) (map[string]Owner, error) {
	if _, err := os.Stat(k.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the kubelet's socket %q is not there: is the kubelet's root another directory?", k.socket)
	}
	answer, err := k.client.List(ctx, &v1.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet at %q for devices: %w", k.socket, err)
	}
	return owners(answer, k.resources), nil
}

// owners reads the kubelet's answer.
func owners(answer *v1.ListPodResourcesResponse, resources []string) map[string]Owner {
	out := map[string]Owner{}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				if !isGPU(d.GetResourceName(), resources) {
					continue
				}
				o := Owner{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName()}
				for _, id := range d.GetDeviceIds() {
					// A replica of a shared GPU is <uuid>::<n>.
					uuid, _, _ := strings.Cut(id, "::")
					if have, taken := out[uuid]; !taken || compare(o, have) < 0 {
						out[uuid] = o
					}
				}
			}
		}
	}
	return out
}

// isGPU says whether a resource's devices are GPUs or partitions.
func isGPU(resource string, others []string) bool {
	return resource == names.ResourceGPU || strings.HasPrefix(resource, names.ResourceGPU+".") ||
		strings.HasPrefix(resource, names.ResourceMIGPrefix) || slices.Contains(others, resource)
}

// compare orders owners.
func compare(a, b Owner) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod), strings.Compare(a.Container, b.Container))
}
