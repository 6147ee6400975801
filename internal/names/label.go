package names

// Group is the API group of ClusterPolicy and GPUNode, and the prefix of all
// node labels of the NVIDIA ecosystem.
const Group = "nvidia.com"

// Gate labels. A step's DaemonSet selects nodes by its gate label with value
// "true". The operator writes GateOpen or GatePreInstalled, and removes only
// what it wrote; every other value belongs to somebody else and stands.
const (
	GatePrefix           = "nvidia.com/gpu.deploy."
	GateOperands         = GatePrefix + "operands"
	GateDriver           = GatePrefix + "driver"
	GateToolkit          = GatePrefix + "container-toolkit"
	GateDevicePlugin     = GatePrefix + "device-plugin"
	GateFeatureDiscovery = GatePrefix + "gpu-feature-discovery"
	GateExporter         = GatePrefix + "dcgm-exporter"
)

// Values of gate labels.
const (
	GateOpen         = "true"
	GateOff          = "false"
	GatePreInstalled = "pre-installed"
	// GatePausedPrefix begins the values by which the driver manager and the MIG
	// manager pause an operand (paused-for-driver-upgrade, paused-for-mig-change).
	GatePausedPrefix = "paused-"
)

// LabelGPUPresent is put on nodes on which a GPU was seen.
const LabelGPUPresent = "nvidia.com/gpu.present"

// AnnotationGates records, on a Node, which label keys the operator wrote, as a
// sorted comma separated list of key=value: it removes nothing else.
const AnnotationGates = "nvidia.com/gpu-operator.owned-labels"
