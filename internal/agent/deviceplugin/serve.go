package deviceplugin

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpu-operator/internal/device"
)

// GetDevicePluginOptions is the kubelet's question what this plugin can do.
func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch sends the devices, and again whenever something about them changed.
func (p *plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	p.opened()
	defer p.ended()
	for {
		p.mu.Lock()
		list, changed, told := slices.Clone(p.list), p.changed, p.told
		p.mu.Unlock()
		if err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: list}); err != nil {
			return err
		}
		p.sent(told)
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-p.gone:
			return nil
		case <-changed:
		}
	}
}

// opened counts a stream.
func (p *plugin) opened() {
	p.mu.Lock()
	p.link.streams++
	p.streamed = p.clock.Now()
	p.mu.Unlock()
	p.nudge()
}

// ended counts a stream off; the kubelet does not come back by itself.
func (p *plugin) ended() {
	p.mu.Lock()
	p.link.streams--
	p.link.ended = true
	p.mu.Unlock()
	p.nudge()
}

// nudge makes the loop look at once.
func (p *plugin) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// sent notes that a list has reached the kubelet.
func (p *plugin) sent(told chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-told:
	default:
		close(told)
	}
}

// Allocate answers what containers get.
func (p *plugin) Allocate(_ context.Context, req *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	p.mu.Lock()
	r := p.resource
	p.mu.Unlock()
	out := &v1beta1.AllocateResponse{}
	for _, c := range req.GetContainerRequests() {
		units, err := r.Find(c.GetDevicesIds())
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		asks := p.settings.Asks
		asks.Request = p.newID()
		out.ContainerResponses = append(out.ContainerResponses, answer(device.Allocate(units, asks)))
	}
	return out, nil
}

// answer is an answer in the kubelet's words.
func answer(a device.Answer) *v1beta1.ContainerAllocateResponse {
	out := &v1beta1.ContainerAllocateResponse{Envs: a.Env, Annotations: a.Annotations}
	for _, m := range a.Mounts {
		out.Mounts = append(out.Mounts, &v1beta1.Mount{HostPath: m.Host, ContainerPath: m.Container, ReadOnly: true})
	}
	for _, d := range a.CDIDevices {
		out.CdiDevices = append(out.CdiDevices, &v1beta1.CDIDevice{Name: d})
	}
	return out
}

// GetPreferredAllocation picks the devices that work best together.
func (p *plugin) GetPreferredAllocation(_ context.Context, req *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	p.mu.Lock()
	r := p.resource
	p.mu.Unlock()
	out := &v1beta1.PreferredAllocationResponse{}
	for _, c := range req.GetContainerRequests() {
		picked, err := prefer(r, c)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: picked})
	}
	return out, nil
}

// prefer picks for one container.
func prefer(r device.Resource, c *v1beta1.ContainerPreferredAllocationRequest) ([]string, error) {
	available, err := r.Find(c.GetAvailableDeviceIDs())
	if err != nil {
		return nil, err
	}
	// The kubelet's order is random; the node's own makes answers the same each time.
	slices.SortStableFunc(available, func(a, b device.Unit) int { return r.Place(a.ID) - r.Place(b.ID) })
	must, err := r.Find(c.GetMustIncludeDeviceIDs())
	if err != nil {
		return nil, err
	}
	units, err := device.Prefer(available, must, int(c.GetAllocationSize()))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, u := range units {
		ids = append(ids, u.ID)
	}
	return ids, nil
}
