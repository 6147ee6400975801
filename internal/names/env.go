package names

// Environment variables by which the operator configures operands. Those with
// an upstream twin keep upstream's name.
const (
	EnvNodeName  = "NODE_NAME"
	EnvNamespace = "OPERATOR_NAMESPACE"
	// EnvHostRoot is where the host's / is mounted; default HostMount.
	EnvHostRoot = "HOST_ROOT"
	// EnvGPUSysfs and EnvGPUProcfs are the roots below which PCI devices, the
	// nvidia module and /proc/driver/nvidia are looked for; default HOST_ROOT/sys
	// and HOST_ROOT/proc. All other kernel facts come from HOST_ROOT.
	EnvGPUSysfs  = "GPU_SYSFS_ROOT"
	EnvGPUProcfs = "GPU_PROCFS_ROOT"
	// EnvDriverVersion is the driver version the policy wants; empty: any.
	EnvDriverVersion = "DRIVER_VERSION"
	// EnvDriverManaged is "true" when the policy's driver.enabled is true.
	EnvDriverManaged   = "DRIVER_MANAGED"
	EnvVisibleDevices  = "NVIDIA_VISIBLE_DEVICES"
	EnvMIGStrategy     = "MIG_STRATEGY"
	EnvDeviceListStrat = "DEVICE_LIST_STRATEGY"
)
