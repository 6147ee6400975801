package names

// What the operands that use the driver share with the kubelet, the container
// runtime and their own containers.
const (
	// VisibleDevicesMounts is the directory in a container below which a mount stands
	// for each device that it gets, when devices are told by mounts.
	VisibleDevicesMounts = "/var/run/nvidia-container-devices"
	// DevNull is what is mounted there.
	DevNull = "/dev/null"

	// KubeletSocket is the kubelet's registration socket for device plugins.
	KubeletSocket = KubeletDevicePluginDir + "/kubelet.sock"
	// PodResourcesSocket tells which container has which device.
	PodResourcesSocket = KubeletPodResources + "/kubelet.sock"

	// MachineTypeFile is the machine's product name.
	MachineTypeFile = MachineTypeDir + "/product_name"
	// CountersFile is where a file with metrics to export may be mounted.
	CountersFile = "/etc/dcgm-exporter/default-counters.csv"
)
