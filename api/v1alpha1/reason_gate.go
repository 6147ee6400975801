package v1alpha1

// Steps, in order. Each is the part of a gate label after nvidia.com/gpu.deploy.
const (
	StepDriver           = "driver"
	StepToolkit          = "container-toolkit"
	StepDevicePlugin     = "device-plugin"
	StepFeatureDiscovery = "gpu-feature-discovery"
	StepExporter         = "dcgm-exporter"
)

// States of a gate.
const (
	// GateOpen: the step's DaemonSet reaches the node.
	GateOpen = "Open"
	// GateClosed: the evidence of the step before is missing.
	GateClosed = "Closed"
	// GatePreInstalled: the step is not needed, the host brings it.
	GatePreInstalled = "PreInstalled"
	// GateOptedOut: a person set the label to false.
	GateOptedOut = "OptedOut"
	// GatePaused: somebody paused the operand by a paused-* value.
	GatePaused = "Paused"
	// GateHeld: what is known is not of this boot, or is being proven anew; the gate
	// stays as it is.
	GateHeld = "Held"
	// GateDisabled: the policy does not want the step.
	GateDisabled = "Disabled"
)

// Reasons of gates.
const (
	// ReasonProven: set when the evidence that opens the gate was seen in this boot.
	ReasonProven = "Proven"
	// ReasonGPUFound: set on the driver gate when the PCI tree shows a GPU and no host driver.
	ReasonGPUFound = "GPUFound"
	// ReasonHostDriver: set on the driver gate when a driver of the OS image answers.
	ReasonHostDriver = "HostDriver"
	// ReasonDriverNotManaged: set on the driver gate when driver.enabled is false.
	ReasonDriverNotManaged = "DriverNotManaged"
	// ReasonNodeNotInspected: set when the node inspector has not yet spoken in this
	// boot. Remedy: look at the inspector's pod on the node.
	ReasonNodeNotInspected = "NodeNotInspected"
	// ReasonNoGPU: set when the PCI tree shows no NVIDIA display device.
	ReasonNoGPU = "NoGPU"
	// ReasonGPUsPassedThrough: set when every GPU is bound to vfio-pci and so belongs to
	// virtual machines.
	ReasonGPUsPassedThrough = "GPUsPassedThrough"
	// ReasonDriverNotReady: set when no driver answers in this boot; the message has the
	// inspector's own reason. Remedy: see that reason; with driver.enabled: false the
	// driver must be part of the OS image.
	ReasonDriverNotReady = "DriverNotReady"
	// ReasonDriverVersionNotWanted: set when another driver version is loaded than the
	// policy wants.
	ReasonDriverVersionNotWanted = "DriverVersionNotWanted"
	// ReasonToolkitNotReady: set when the toolkit has not proven the runtime handlers in
	// this boot; the message has the toolkit's own reason.
	ReasonToolkitNotReady = "ToolkitNotReady"
	// ReasonHandlerMissing: set when the runtime does not report the handler.
	ReasonHandlerMissing = "HandlerMissing"
	// ReasonCDISpecNotReady: set when no CDI spec matches the loaded driver.
	ReasonCDISpecNotReady = "CDISpecNotReady"
	// ReasonProvenAnew: set while the proof is being taken again after a restart of the
	// runtime or a change of the driver.
	ReasonProvenAnew = "ProvenAnew"
	// ReasonOptedOut: set when a person's label keeps the step off the node.
	ReasonOptedOut = "OptedOut"
	// ReasonPaused: set when a paused-* label keeps the step off the node.
	ReasonPaused = "Paused"
	// ReasonDisabled: set when the policy does not want the step.
	ReasonDisabled = "Disabled"
	// ReasonPolicyDeleted: set while the ClusterPolicy is being removed.
	ReasonPolicyDeleted = "PolicyDeleted"
)

// Stages of a node: the first step that is not proven.
const (
	StageUnknown      = "Unknown"
	StageNoGPU        = "NoGPU"
	StageOptedOut     = "OptedOut"
	StageDriver       = "Driver"
	StageToolkit      = "Toolkit"
	StageDevicePlugin = "DevicePlugin"
	StageOperands     = "Operands"
	StageReady        = "Ready"
	StageRemoving     = "Removing"
)

// ConditionReady is the one condition of a GPUNode: True at stage Ready, else
// False (Unknown at stage Unknown) with the reason of the first gate in the way.
const ConditionReady = "Ready"

// Reasons of the Ready condition that are no gate's.
const (
	// ReasonReady: set when every step is proven and GPUs are allocatable.
	ReasonReady = "Ready"
	// ReasonNoAllocatable: set when the device plugin's gate is open and the node does not
	// yet offer a GPU. Remedy: look at the device plugin's pod on the node.
	ReasonNoAllocatable = "NoAllocatableGPU"
	// ReasonNoDiscovery: set when feature discovery has not yet spoken in this boot.
	ReasonNoDiscovery = "DiscoveryNotReady"
)

// Conditions of a ClusterPolicy.
const (
	// ConditionPolicyReady: True when every GPU node that is not opted out is ready.
	ConditionPolicyReady = "Ready"
	// ConditionProgressing: True while nodes are on their way to ready.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: True when a node is blocked by something that does not mend itself.
	ConditionDegraded = "Degraded"
	// ConditionDrifted: True when nodes differ from each other or from what was applied.
	ConditionDrifted = "Drifted"
	// ConditionUnsupportedFields: True when fields are set that this version does not
	// implement; the message lists their paths.
	ConditionUnsupportedFields = "UnsupportedFields"
)

// Reasons of a ClusterPolicy's conditions.
const (
	// ReasonAllNodesReady: set when every GPU node is ready.
	ReasonAllNodesReady = "AllNodesReady"
	// ReasonNoGPUNodes: set when no node has a GPU; the policy is ready and waits.
	ReasonNoGPUNodes = "NoGPUNodes"
	// ReasonNodesNotReady: set when GPU nodes are not ready; the message names the first.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonNodesDiffer: set when GPU nodes have more than one fingerprint.
	ReasonNodesDiffer = "NodesDiffer"
	// ReasonNodesSame: set when all fingerprints are equal and nothing drifted.
	ReasonNodesSame = "NodesSame"
	// ReasonHostDrifted: set when a host file that we wrote was changed by somebody else.
	ReasonHostDrifted = "HostDrifted"
	// ReasonFieldsUnsupported: set when fields are set that this version does not implement.
	ReasonFieldsUnsupported = "FieldsUnsupported"
	// ReasonAllFieldsSupported: set when there is none.
	ReasonAllFieldsSupported = "AllFieldsSupported"
	// ReasonSecondPolicy: set on every ClusterPolicy but the oldest, whose name is in the message.
	ReasonSecondPolicy = "SecondPolicy"
	// ReasonRemoving: set while hosts are being brought back to how they were born.
	ReasonRemoving = "Removing"
	// ReasonOperatorError: set when the operator could not write what it wanted; the
	// message has the error.
	ReasonOperatorError = "OperatorError"
)
