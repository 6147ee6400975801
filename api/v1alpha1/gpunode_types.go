package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUNode is the state of one node as seen on that node and as decided for it.
// It is named as its Node and owned by it; the operator creates it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=gpunodes,singular=gpunode,shortName=gpun
// +kubebuilder:printcolumn:name="GPUs",type=integer,JSONPath=`.status.gpuCount`
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.status.driver.loadedVersion`
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.status.facts.runtimeVersion`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Fingerprint",type=string,JSONPath=`.status.fingerprint.short`
// +kubebuilder:printcolumn:name="Drift",type=string,JSONPath=`.status.drift`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GPUNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what is known of the node; there is no spec: a node's desired
	// state is a function of the ClusterPolicy and these facts.
	// +optional
	Status GPUNodeStatus `json:"status,omitempty"`
}

// GPUNodeList is a list of GPUNodes.
//
// +kubebuilder:object:root=true
type GPUNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GPUNode `json:"items"`
}

// GPUNodeStatus is what is known of one node.
type GPUNodeStatus struct {
	// facts are the node's identity in this boot. Writer: inspector.
	// +optional
	Facts *NodeFacts `json:"facts,omitempty"`
	// pciGPUs are the NVIDIA display devices (PCI class 03xx, vendor 10de) that
	// the PCI tree shows, ordered by address. Writer: inspector. An absent list
	// means "not looked yet"; pciScanned says that an empty list is a finding.
	// +optional
	// +listType=map
	// +listMapKey=address
	PCIGPUs []PCIGPU `json:"pciGPUs,omitempty"`
	// pciScanned is true once the inspector has read the PCI tree in this boot.
	// +optional
	PCIScanned bool `json:"pciScanned,omitempty"`
	// gpuCount is the number of pciGPUs, for the table. Writer: inspector.
	// +optional
	GPUCount int32 `json:"gpuCount,omitempty"`
	// driver is which driver answers on this node. Writer: inspector.
	// +optional
	Driver *DriverState `json:"driver,omitempty"`
	// evidence are the reports that the node's operands left on the host in this
	// boot, one a step. Writer: inspector.
	// +optional
	// +listType=map
	// +listMapKey=step
	Evidence []StepEvidence `json:"evidence,omitempty"`
	// cdi are the CDI specs found for NVIDIA kinds, ordered by path. Writer: inspector.
	// +optional
	// +listType=map
	// +listMapKey=path
	CDI []CDISpec `json:"cdi,omitempty"`
	// hostChanges are the host files that the ledger says we changed. Writer: inspector.
	// +optional
	// +listType=map
	// +listMapKey=path
	HostChanges []HostChange `json:"hostChanges,omitempty"`
	// fingerprint is the hash tree over everything that must be the same on equal
	// nodes. Writer: inspector.
	// +optional
	Fingerprint *Fingerprint `json:"fingerprint,omitempty"`
	// drift says in one word whether the host is as the ledger left it: None, Drifted
	// or Unknown. Writer: inspector.
	// +optional
	// +kubebuilder:validation:Enum=None;Drifted;Unknown
	Drift string `json:"drift,omitempty"`
	// findings are problems seen on the node, each with evidence and a remedy. Writer: inspector.
	// +optional
	// +listType=map
	// +listMapKey=reason
	Findings []Finding `json:"findings,omitempty"`
	// discovery are the node labels that the feature discovery derived from NVML. Writer: discovery.
	// +optional
	Discovery *Discovery `json:"discovery,omitempty"`

	// stage is the first step that is not yet proven (Inspect, Driver, Toolkit,
	// DevicePlugin, Operands), Ready when all are, NoGPU, OptedOut or Unknown.
	// Writer: operator.
	// +optional
	Stage string `json:"stage,omitempty"`
	// gates are the decisions of this node's gates in order. Writer: operator.
	// +optional
	// +listType=map
	// +listMapKey=step
	Gates []Gate `json:"gates,omitempty"`
	// conditions of this node. Writer: operator.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeFacts identify a node in one boot.
type NodeFacts struct {
	// bootID is the kernel's random boot id; facts of another boot are no evidence.
	BootID string `json:"bootID"`
	// kernel is the running kernel's release (uname -r).
	Kernel string `json:"kernel"`
	// arch is the machine's architecture in Go's words (amd64, arm64).
	Arch string `json:"arch"`
	// osID and osVersion are ID and VERSION_ID of os-release.
	// +optional
	OSID string `json:"osID,omitempty"`
	// +optional
	OSVersion string `json:"osVersion,omitempty"`
	// runtimeVersion is the container runtime that serves the kubelet, as
	// name://version (containerd://2.4.2).
	// +optional
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	// runtimeConfigPath and runtimeConfigHash are the runtime's configuration file
	// and the sha256 of its bytes.
	// +optional
	RuntimeConfigPath string `json:"runtimeConfigPath,omitempty"`
	// +optional
	RuntimeConfigHash string `json:"runtimeConfigHash,omitempty"`
	// runtimeStartedAt is when the runtime's process started, in clock ticks since
	// boot (field 22 of /proc/PID/stat): a restart changes it, a clock jump does not.
	// +optional
	RuntimeStartedAt int64 `json:"runtimeStartedAt,omitempty"`
	// secureBoot is enabled, disabled or unknown.
	// +optional
	SecureBoot string `json:"secureBoot,omitempty"`
}

// PCIGPU is an NVIDIA display device in the PCI tree.
type PCIGPU struct {
	// address is the PCI address (0000:19:00.0).
	Address string `json:"address"`
	// deviceID is the PCI device id without vendor (2330).
	DeviceID string `json:"deviceID"`
	// class is the PCI class, six hexadecimal digits (030200).
	// +optional
	Class string `json:"class,omitempty"`
	// driver is the bound kernel driver (nvidia, nouveau, vfio-pci); empty when none.
	// +optional
	Driver string `json:"driver,omitempty"`
}

// DriverState is which driver answers on a node.
type DriverState struct {
	// kind is None, Host (part of the OS image) or Managed (root in ManagedDriverRoot).
	// +kubebuilder:validation:Enum=None;Host;Managed
	Kind string `json:"kind"`
	// root is the driver root as the host sees it ("/" or "/run/nvidia/driver").
	// +optional
	Root string `json:"root,omitempty"`
	// loadedVersion is the version of the kernel module that is loaded now.
	// +optional
	LoadedVersion string `json:"loadedVersion,omitempty"`
	// libraryVersion is the version of libnvidia-ml in the root.
	// +optional
	LibraryVersion string `json:"libraryVersion,omitempty"`
	// ready is true when module and library are there with the same version and the
	// control device node exists: the driver can answer.
	Ready bool `json:"ready"`
	// reason is the documented reason when not ready.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says it in words.
	// +optional
	Message string `json:"message,omitempty"`
}

// StepEvidence is what an operand reported on the host about its own step. It
// counts only for the boot and the daemon start that it names.
type StepEvidence struct {
	// step is driver, container-toolkit or device-plugin.
	Step string `json:"step"`
	// bootID is the boot in which it was written.
	BootID string `json:"bootID"`
	// ready says that the step is proven.
	Ready bool `json:"ready"`
	// phase is Applied or Undone.
	// +optional
	Phase string `json:"phase,omitempty"`
	// reason and message say why it is not.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// driverVersion is the driver that the step was done for.
	// +optional
	DriverVersion string `json:"driverVersion,omitempty"`
	// handlers are the runtime handlers that the runtime's own CRI answer listed.
	// +optional
	// +listType=set
	Handlers []string `json:"handlers,omitempty"`
	// runtimeStartedAt is the runtime's start as in facts: another start means that
	// the proof must be taken again.
	// +optional
	RuntimeStartedAt int64 `json:"runtimeStartedAt,omitempty"`
	// runtimeRestarts counts restarts of the runtime that the toolkit made in this boot.
	// +optional
	RuntimeRestarts int32 `json:"runtimeRestarts,omitempty"`
	// hash is the hash of what was applied.
	// +optional
	Hash string `json:"hash,omitempty"`
	// time is when the evidence was written.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// CDISpec is a CDI spec file of an NVIDIA kind.
type CDISpec struct {
	// path of the file on the host.
	Path string `json:"path"`
	// kind is the CDI kind (nvidia.com/gpu).
	Kind string `json:"kind"`
	// devices is the number of devices in it.
	Devices int32 `json:"devices"`
	// driverVersion is the driver version of the libraries that it mounts.
	// +optional
	DriverVersion string `json:"driverVersion,omitempty"`
	// missing is the first host path that the spec names and that is not there.
	// +optional
	Missing string `json:"missing,omitempty"`
}

// HostChange is one host file that the ledger says we changed.
type HostChange struct {
	// path of the file on the host.
	Path string `json:"path"`
	// hash is the sha256 of what we wrote (empty for directories and links).
	// +optional
	Hash string `json:"hash,omitempty"`
	// action is Created, Changed or Removed.
	Action string `json:"action"`
	// step is whose change it is.
	// +optional
	Step string `json:"step,omitempty"`
	// why says what the change is for.
	// +optional
	Why string `json:"why,omitempty"`
	// state is Ours, Drifted (changed by someone else) or Missing.
	// +optional
	State string `json:"state,omitempty"`
}

// Fingerprint is a hash tree: equal nodes have equal hashes, and the leaves say
// in what two nodes differ.
type Fingerprint struct {
	// hash is the sha256 over all leaves.
	Hash string `json:"hash"`
	// short is its first 10 hexadecimal digits.
	Short string `json:"short"`
	// leaves are the values hashed, by name, in order of name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Leaves []FingerprintLeaf `json:"leaves,omitempty"`
}

// FingerprintLeaf is one value that must be the same on equal nodes.
type FingerprintLeaf struct {
	// name of the leaf (kernel, driver.version, cdi.spec ...).
	Name string `json:"name"`
	// value, or its hash when it is long.
	Value string `json:"value"`
}

// Finding is a problem with its evidence and what to do.
type Finding struct {
	// reason is a documented constant.
	Reason string `json:"reason"`
	// severity is Info, Warning or Error.
	// +kubebuilder:validation:Enum=Info;Warning;Error
	Severity string `json:"severity"`
	// evidence is what was seen (path, value).
	// +optional
	Evidence string `json:"evidence,omitempty"`
	// remedy is what to do.
	// +optional
	Remedy string `json:"remedy,omitempty"`
}

// Discovery are the labels derived from NVML.
type Discovery struct {
	// bootID is the boot in which they were read.
	BootID string `json:"bootID"`
	// labels by key, all of the nvidia.com domain, values valid as node labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// Gate is the decision of one gate.
type Gate struct {
	// step is driver, container-toolkit, device-plugin, gpu-feature-discovery or dcgm-exporter.
	Step string `json:"step"`
	// state is Open, Closed, PreInstalled, OptedOut, Paused, Held or Disabled.
	State string `json:"state"`
	// reason is the documented reason of the state.
	Reason string `json:"reason"`
	// message says it in words, with the evidence and the remedy.
	// +optional
	Message string `json:"message,omitempty"`
}
