package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// OperatorSpec are settings of the operator itself.
type OperatorSpec struct {
	// runtimeClass is the name of the RuntimeClass for GPU Pods.
	// +kubebuilder:default=nvidia
	// +optional
	RuntimeClass string `json:"runtimeClass,omitempty"`
	// defaultRuntime is the container runtime of nodes that do not report one. Every
	// node reports its own; the field is accepted and not used.
	// +optional
	DefaultRuntime string `json:"defaultRuntime,omitempty"`
	// initContainer is the image of init containers of upstream's images.
	// +optional
	InitContainer ImageSpec `json:"initContainer,omitempty"`
	// labels are put on everything that the operator creates.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are put on everything that the operator creates.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// metrics of the operator.
	// +optional
	Metrics OperatorMetricsSpec `json:"metrics,omitempty"`
	// use_ocp_driver_toolkit builds drivers with OpenShift's driver toolkit image.
	// +optional
	UseOCPDriverToolkit *bool `json:"use_ocp_driver_toolkit,omitempty"`
}

// OperatorMetricsSpec says how the operator's own metrics are scraped.
type OperatorMetricsSpec struct {
	// serviceMonitor for the operator.
	// +optional
	ServiceMonitor *ServiceMonitorSpec `json:"serviceMonitor,omitempty"`
}

// DaemonsetsSpec is what all operand pods share.
type DaemonsetsSpec struct {
	// labels are put on every operand pod.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are put on every operand pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// tolerations of every operand pod, besides the one of nvidia.com/gpu:NoSchedule.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// priorityClassName of operand pods; default system-node-critical.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// updateStrategy of operand DaemonSets.
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	// +kubebuilder:default=RollingUpdate
	// +optional
	UpdateStrategy string `json:"updateStrategy,omitempty"`
	// rollingUpdate bounds the update.
	// +optional
	RollingUpdate *RollingUpdateSpec `json:"rollingUpdate,omitempty"`
	// podSecurityContext of operand pods.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
}

// RollingUpdateSpec bounds a rolling update.
type RollingUpdateSpec struct {
	// maxUnavailable is a number of nodes or a percentage; default 1.
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+|[0-9]{1,2}%|100%)$')",message="maxUnavailable is a number of nodes or a percentage up to 100%"
	// +optional
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
}

// DriverSpec is how the driver comes to a node.
type DriverSpec struct {
	ComponentSpec `json:",inline"`
	// useNvidiaDriverCRD leaves drivers to NVIDIADriver objects.
	// +optional
	UseNvidiaDriverCRD *bool `json:"useNvidiaDriverCRD,omitempty"`
	// usePrecompiled takes images that are built for one kernel.
	// +optional
	UsePrecompiled *bool `json:"usePrecompiled,omitempty"`
	// kernelModuleType is the flavour of the kernel modules.
	// +kubebuilder:validation:Enum=auto;open;proprietary
	// +kubebuilder:default=auto
	// +optional
	KernelModuleType string `json:"kernelModuleType,omitempty"`
	// useOpenKernelModules is the former way to say kernelModuleType: open.
	// +optional
	UseOpenKernelModules *bool `json:"useOpenKernelModules,omitempty"`
	// startupProbe, livenessProbe and readinessProbe of the driver container.
	// +optional
	StartupProbe *ContainerProbe `json:"startupProbe,omitempty"`
	// +optional
	LivenessProbe *ContainerProbe `json:"livenessProbe,omitempty"`
	// +optional
	ReadinessProbe *ContainerProbe `json:"readinessProbe,omitempty"`
	// rdma is GPUDirect RDMA.
	// +optional
	GPUDirectRDMA *GPUDirectRDMASpec `json:"rdma,omitempty"`
	// upgradePolicy is how a new driver reaches nodes.
	// +optional
	UpgradePolicy *DriverUpgradePolicySpec `json:"upgradePolicy,omitempty"`
	// manager is the image that unloads an old driver.
	// +optional
	Manager ManagerSpec `json:"manager,omitempty"`
	// repoConfig names package repositories for driver builds.
	// +optional
	RepoConfig *DriverRepoConfigSpec `json:"repoConfig,omitempty"`
	// certConfig names certificates for package repositories.
	// +optional
	CertConfig *ConfigMapName `json:"certConfig,omitempty"`
	// licensingConfig of vGPU guests.
	// +optional
	LicensingConfig *DriverLicensingConfigSpec `json:"licensingConfig,omitempty"`
	// virtualTopology of vGPU guests.
	// +optional
	VirtualTopology *VirtualTopologyConfigSpec `json:"virtualTopology,omitempty"`
	// kernelModuleConfig names module parameters.
	// +optional
	KernelModuleConfig *ConfigMapName `json:"kernelModuleConfig,omitempty"`
	// secretEnv names a Secret whose keys become environment of the driver container.
	// +optional
	SecretEnv string `json:"secretEnv,omitempty"`
}

// GPUDirectRDMASpec is GPUDirect RDMA.
type GPUDirectRDMASpec struct {
	// enabled loads nvidia-peermem.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// useHostMofed says that the network driver is part of the host.
	// +optional
	UseHostMOFED *bool `json:"useHostMofed,omitempty"`
}

// DriverRepoConfigSpec names a ConfigMap of package repository files.
type DriverRepoConfigSpec struct {
	// configMapName of the ConfigMap.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`
}

// DriverLicensingConfigSpec is the licence of vGPU guests.
type DriverLicensingConfigSpec struct {
	// configMapName is the former place of the licence configuration.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`
	// secretName of the licence configuration.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// nlsEnabled says that the licence comes from NVIDIA's licence system.
	// +optional
	NLSEnabled *bool `json:"nlsEnabled,omitempty"`
}

// VirtualTopologyConfigSpec names the topology daemon's configuration.
type VirtualTopologyConfigSpec struct {
	// config is the name of the ConfigMap.
	// +optional
	Config string `json:"config,omitempty"`
}

// DriverUpgradePolicySpec is how a new driver reaches nodes.
type DriverUpgradePolicySpec struct {
	// autoUpgrade upgrades nodes without being asked for each.
	// +kubebuilder:default=false
	// +optional
	AutoUpgrade bool `json:"autoUpgrade,omitempty"`
	// maxParallelUpgrades is how many nodes are upgraded at once; 0 is no bound.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxParallelUpgrades int `json:"maxParallelUpgrades,omitempty"`
	// maxUnavailable is a number of nodes or a percentage.
	// +kubebuilder:default="25%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// waitForCompletion of workloads before a node is touched.
	// +optional
	WaitForCompletion *WaitForCompletionSpec `json:"waitForCompletion,omitempty"`
	// podDeletion of Pods that use GPUs.
	// +optional
	PodDeletion *PodDeletionSpec `json:"podDeletion,omitempty"`
	// drain of the node.
	// +optional
	Drain *DrainSpec `json:"drain,omitempty"`
}

// WaitForCompletionSpec waits for workloads to end.
type WaitForCompletionSpec struct {
	// podSelector chooses the Pods that are waited for.
	// +optional
	PodSelector string `json:"podSelector,omitempty"`
	// timeoutSeconds of the wait; 0 is no bound.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSecond int `json:"timeoutSeconds,omitempty"`
}

// PodDeletionSpec deletes Pods that use GPUs.
type PodDeletionSpec struct {
	// force deletes Pods that no controller would make again.
	// +kubebuilder:default=false
	// +optional
	Force bool `json:"force,omitempty"`
	// timeoutSeconds of the deletion; 0 is no bound.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSecond int `json:"timeoutSeconds,omitempty"`
	// deleteEmptyDir accepts that emptyDir data is lost.
	// +kubebuilder:default=false
	// +optional
	DeleteEmptyDir bool `json:"deleteEmptyDir,omitempty"`
}

// DrainSpec drains a node.
type DrainSpec struct {
	// enable drains the node when Pods could not be deleted.
	// +kubebuilder:default=false
	// +optional
	Enable bool `json:"enable,omitempty"`
	// force deletes Pods that no controller would make again.
	// +kubebuilder:default=false
	// +optional
	Force bool `json:"force,omitempty"`
	// podSelector chooses the Pods that are drained.
	// +optional
	PodSelector string `json:"podSelector,omitempty"`
	// timeoutSeconds of the drain; 0 is no bound.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSecond int `json:"timeoutSeconds,omitempty"`
	// deleteEmptyDir accepts that emptyDir data is lost.
	// +kubebuilder:default=false
	// +optional
	DeleteEmptyDir bool `json:"deleteEmptyDir,omitempty"`
}

// ToolkitSpec is the container toolkit.
type ToolkitSpec struct {
	ComponentSpec `json:",inline"`
	// installDir is the host directory below which binaries are installed.
	// +kubebuilder:default=/usr/local/nvidia
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.contains('..')",message="installDir is an absolute path without '..'"
	// +optional
	InstallDir string `json:"installDir,omitempty"`
}

// DevicePluginSpec is the device plugin.
type DevicePluginSpec struct {
	ComponentSpec `json:",inline"`
	// config names a ConfigMap of configurations and the default one.
	// +optional
	Config *DevicePluginConfig `json:"config,omitempty"`
	// mps is the multi-process service.
	// +optional
	MPS *MPSConfig `json:"mps,omitempty"`
}

// DevicePluginConfig names a ConfigMap of configurations.
type DevicePluginConfig struct {
	// name of the ConfigMap.
	// +optional
	Name string `json:"name,omitempty"`
	// default is the key that nodes without a label use.
	// +optional
	Default string `json:"default,omitempty"`
}

// MPSConfig is the multi-process service.
type MPSConfig struct {
	// root is the host directory of its pipes.
	// +kubebuilder:default=/run/nvidia/mps
	// +optional
	Root string `json:"root,omitempty"`
}

// DCGMSpec is the stand-alone DCGM host engine.
type DCGMSpec struct {
	ComponentSpec `json:",inline"`
	// hostPort that the host engine listens on.
	// +optional
	HostPort int32 `json:"hostPort,omitempty"`
}

// DCGMExporterSpec is the exporter.
type DCGMExporterSpec struct {
	ComponentSpec `json:",inline"`
	// annotations are put on the exporter's pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// config names a ConfigMap that chooses the metrics.
	// +optional
	MetricsConfig *ConfigMapName `json:"config,omitempty"`
	// service of the exporter.
	// +optional
	ServiceSpec *DCGMExporterServiceConfig `json:"service,omitempty"`
	// serviceMonitor for the exporter.
	// +optional
	ServiceMonitor *ServiceMonitorSpec `json:"serviceMonitor,omitempty"`
	// hostPID runs the exporter in the host's process namespace.
	// +optional
	HostPID *bool `json:"hostPID,omitempty"`
	// hpcJobMapping attributes metrics to jobs of a batch system.
	// +optional
	HPCJobMapping *HPCJobMapping `json:"hpcJobMapping,omitempty"`
	// enablePodLabels adds Pods' labels to metrics.
	// +optional
	EnablePodLabels *bool `json:"enablePodLabels,omitempty"`
	// enablePodUID adds Pods' uids to metrics.
	// +optional
	EnablePodUID *bool `json:"enablePodUID,omitempty"`
	// podLabelAllowlistRegex bounds which Pod labels are added.
	// +optional
	PodLabelAllowlistRegex []string `json:"podLabelAllowlistRegex,omitempty"`
}

// DCGMExporterServiceConfig is the exporter's Service.
type DCGMExporterServiceConfig struct {
	// type of the Service.
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`
	// internalTrafficPolicy of the Service.
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
}

// HPCJobMapping attributes metrics to jobs of a batch system.
type HPCJobMapping struct {
	// enabled reads the mapping.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// directory of the mapping files.
	// +optional
	Directory string `json:"directory,omitempty"`
}

// MIGSpec is how MIG devices become resources.
type MIGSpec struct {
	// strategy is none, single or mixed.
	// +kubebuilder:validation:Enum=none;single;mixed
	// +optional
	Strategy string `json:"strategy,omitempty"`
}

// MIGManagerSpec is the MIG manager.
type MIGManagerSpec struct {
	ComponentSpec `json:",inline"`
	// config names the ConfigMap of layouts.
	// +optional
	Config *MIGPartedConfigSpec `json:"config,omitempty"`
	// gpuClientsConfig names the ConfigMap of host services that use GPUs.
	// +optional
	GPUClientsConfig *ConfigMapName `json:"gpuClientsConfig,omitempty"`
}

// MIGPartedConfigSpec names the ConfigMap of MIG layouts.
type MIGPartedConfigSpec struct {
	// name of the ConfigMap.
	// +optional
	Name string `json:"name,omitempty"`
	// default layout of nodes without a label.
	// +kubebuilder:validation:Enum=all-disabled;""
	// +kubebuilder:default=all-disabled
	// +optional
	Default string `json:"default,omitempty"`
}

// CDIConfigSpec is how containers get devices.
type CDIConfigSpec struct {
	// enabled uses the Container Device Interface.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// default is the former switch that made CDI the default mode.
	// +kubebuilder:default=false
	// +optional
	Default *bool `json:"default,omitempty"`
	// nriPluginEnabled injects devices by an NRI plugin instead of a runtime handler.
	// +kubebuilder:default=false
	// +optional
	NRIPluginEnabled *bool `json:"nriPluginEnabled,omitempty"`
}

// HostPathsSpec are paths on the host.
type HostPathsSpec struct {
	// rootFS is the host's root as operands mount it.
	// +optional
	RootFS string `json:"rootFS,omitempty"`
	// driverInstallDir is the root of a containerised driver; default /run/nvidia/driver.
	// +optional
	DriverInstallDir string `json:"driverInstallDir,omitempty"`
	// kubeletRootDir is the kubelet's --root-dir.
	// +kubebuilder:default=/var/lib/kubelet
	// +optional
	KubeletRootDir string `json:"kubeletRootDir,omitempty"`
}

// Switch turns something on.
type Switch struct {
	// enabled turns it on.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// DriverExtraSpec is a kernel module that comes beside the driver.
type DriverExtraSpec struct {
	ContainerSpec `json:",inline"`
	// enabled builds and loads it; default false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}
