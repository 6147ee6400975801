package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterPolicy declares the whole procedure that makes GPU nodes usable. There
// is one in a cluster; a second one is refused by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=clusterpolicies,singular=clusterpolicy
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="GPU-Nodes",type=integer,JSONPath=`.status.gpuNodes`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyNodes`
// +kubebuilder:printcolumn:name="Fingerprints",type=integer,priority=1,JSONPath=`.status.fingerprintCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what every GPU node shall be.
	// +optional
	Spec ClusterPolicySpec `json:"spec,omitempty"`
	// status is what was seen.
	// +optional
	Status ClusterPolicyStatus `json:"status,omitempty"`
}

// ClusterPolicyList is a list of ClusterPolicies.
//
// +kubebuilder:object:root=true
type ClusterPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPolicy `json:"items"`
}

// ClusterPolicySpec is what every GPU node shall be.
type ClusterPolicySpec struct {
	// operator itself.
	// +optional
	Operator OperatorSpec `json:"operator,omitempty"`
	// daemonsets is what all operand pods share.
	// +optional
	Daemonsets DaemonsetsSpec `json:"daemonsets,omitempty"`
	// driver: how the driver comes to a node; enabled: false says that it is part of
	// the OS image.
	// +optional
	Driver DriverSpec `json:"driver,omitempty"`
	// toolkit: registers the runtime handlers and writes CDI specs.
	// +optional
	Toolkit ToolkitSpec `json:"toolkit,omitempty"`
	// devicePlugin: advertises nvidia.com/gpu.
	// +optional
	DevicePlugin DevicePluginSpec `json:"devicePlugin,omitempty"`
	// dcgm: the stand-alone DCGM host engine.
	// +optional
	DCGM DCGMSpec `json:"dcgm,omitempty"`
	// dcgmExporter: metrics.
	// +optional
	DCGMExporter DCGMExporterSpec `json:"dcgmExporter,omitempty"`
	// nodeStatusExporter: the peer's metrics of its validator.
	// +optional
	NodeStatusExporter ComponentSpec `json:"nodeStatusExporter,omitempty"`
	// gfd: GPU feature discovery, model and memory as node labels.
	// +optional
	GPUFeatureDiscovery ComponentSpec `json:"gfd,omitempty"`
	// mig: how MIG devices become resources.
	// +optional
	MIG MIGSpec `json:"mig,omitempty"`
	// migManager: changes MIG layouts.
	// +optional
	MIGManager MIGManagerSpec `json:"migManager,omitempty"`
	// psp was for pod security policies, which Kubernetes no longer has.
	// +optional
	PSP Switch `json:"psp,omitempty"`
	// psa labels the operator's namespace for pod security admission.
	// +optional
	PSA Switch `json:"psa,omitempty"`
	// validator: the peer's validator.
	// +optional
	Validator ValidatorSpec `json:"validator,omitempty"`
	// gds: GPUDirect Storage.
	// +optional
	GPUDirectStorage *DriverExtraSpec `json:"gds,omitempty"`
	// gdrcopy: the GDRCopy kernel module.
	// +optional
	GDRCopy *DriverExtraSpec `json:"gdrcopy,omitempty"`
	// sandboxWorkloads: virtual machines.
	// +optional
	SandboxWorkloads SandboxWorkloadsSpec `json:"sandboxWorkloads,omitempty"`
	// vfioManager, sandboxDevicePlugin, kataSandboxDevicePlugin, vgpuManager,
	// vgpuDeviceManager, ccManager and kataManager serve virtual machines.
	// +optional
	VFIOManager VFIOManagerSpec `json:"vfioManager,omitempty"`
	// +optional
	SandboxDevicePlugin ComponentSpec `json:"sandboxDevicePlugin,omitempty"`
	// +optional
	KataSandboxDevicePlugin ComponentSpec `json:"kataSandboxDevicePlugin,omitempty"`
	// +optional
	VGPUManager VGPUManagerSpec `json:"vgpuManager,omitempty"`
	// +optional
	VGPUDeviceManager VGPUDeviceManagerSpec `json:"vgpuDeviceManager,omitempty"`
	// +optional
	CCManager CCManagerSpec `json:"ccManager,omitempty"`
	// +optional
	KataManager KataManagerSpec `json:"kataManager,omitempty"`
	// cdi: how containers get devices.
	// +optional
	CDI CDIConfigSpec `json:"cdi,omitempty"`
	// hostPaths on nodes.
	// +optional
	HostPaths HostPathsSpec `json:"hostPaths,omitempty"`
}

// States of a ClusterPolicy, in the peer's words.
const (
	// StateReady is set when every GPU node that is not opted out is ready.
	StateReady = "ready"
	// StateNotReady is set otherwise.
	StateNotReady = "notReady"
	// StateIgnored is set on every ClusterPolicy but the first.
	StateIgnored = "ignored"
)

// ClusterPolicyStatus is what was seen.
type ClusterPolicyStatus struct {
	// state is ready, notReady or ignored.
	// +kubebuilder:validation:Enum=ignored;ready;notReady
	// +optional
	State string `json:"state,omitempty"`
	// namespace that the operands run in.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// observedGeneration of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// gpuNodes is the number of nodes on which a GPU was seen.
	// +optional
	GPUNodes int32 `json:"gpuNodes,omitempty"`
	// readyNodes is how many of them are ready.
	// +optional
	ReadyNodes int32 `json:"readyNodes,omitempty"`
	// steps are the counts of each step over all GPU nodes.
	// +listType=map
	// +listMapKey=step
	// +optional
	Steps []StepCount `json:"steps,omitempty"`
	// fingerprintCount is the number of groups of nodes that differ; 1 is sameness.
	// +optional
	FingerprintCount int32 `json:"fingerprintCount,omitempty"`
	// fingerprints are the groups, largest first; at most 10.
	// +listType=map
	// +listMapKey=hash
	// +optional
	Fingerprints []FingerprintGroup `json:"fingerprints,omitempty"`
	// blockedNodes are the first nodes (at most 10, by name) that are not ready, with why.
	// +listType=map
	// +listMapKey=node
	// +optional
	BlockedNodes []BlockedNode `json:"blockedNodes,omitempty"`
	// conditions of the policy.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// StepCount counts nodes by the state of one step.
type StepCount struct {
	// step is the part of the gate label after nvidia.com/gpu.deploy.
	Step string `json:"step"`
	// wanted is on how many nodes the step is to be done.
	Wanted int32 `json:"wanted"`
	// open is on how many its gate is open (or pre-installed).
	Open int32 `json:"open"`
	// blocked is on how many it is closed for want of evidence.
	Blocked int32 `json:"blocked"`
}

// FingerprintGroup is a group of nodes that are the same.
type FingerprintGroup struct {
	// hash is the short fingerprint.
	Hash string `json:"hash"`
	// nodes is how many nodes have it.
	Nodes int32 `json:"nodes"`
	// example is the first of them by name.
	Example string `json:"example"`
}

// BlockedNode is a node that is not ready, with why.
type BlockedNode struct {
	// node is its name.
	Node string `json:"node"`
	// stage is the step that is not proven.
	Stage string `json:"stage"`
	// reason is a documented constant.
	Reason string `json:"reason"`
	// message says it in words.
	// +optional
	Message string `json:"message,omitempty"`
}
