package v1

// SandboxWorkloadsSpec is for nodes whose GPUs go to virtual machines.
type SandboxWorkloadsSpec struct {
	// enabled lets nodes choose virtual machines by label nvidia.com/gpu.workload.config.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// defaultWorkload of nodes without the label.
	// +kubebuilder:validation:Enum=container;vm-passthrough;vm-vgpu
	// +kubebuilder:default=container
	// +optional
	DefaultWorkload string `json:"defaultWorkload,omitempty"`
	// mode is the kind of virtual machines.
	// +kubebuilder:validation:Enum=kubevirt;kata
	// +kubebuilder:default=kubevirt
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ValidatorSpec is the peer's validator; its checks are part of gates and the
// node inspector here.
type ValidatorSpec struct {
	ContainerSpec `json:",inline"`
	// resources of the validator's containers.
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`
	// hostNetwork runs the validator in the host's network.
	// +optional
	HostNetwork *bool `json:"hostNetwork,omitempty"`
	// plugin, toolkit, driver, cuda, vfioPCI, vgpuManager and vgpuDevices are
	// environment of the single checks.
	// +optional
	Plugin *EnvSpec `json:"plugin,omitempty"`
	// +optional
	Toolkit *EnvSpec `json:"toolkit,omitempty"`
	// +optional
	Driver *EnvSpec `json:"driver,omitempty"`
	// +optional
	CUDA *EnvSpec `json:"cuda,omitempty"`
	// +optional
	VFIOPCI *EnvSpec `json:"vfioPCI,omitempty"`
	// +optional
	VGPUManager *EnvSpec `json:"vgpuManager,omitempty"`
	// +optional
	VGPUDevices *EnvSpec `json:"vgpuDevices,omitempty"`
}

// VFIOManagerSpec binds GPUs to vfio-pci.
type VFIOManagerSpec struct {
	ComponentSpec `json:",inline"`
	// driverManager unloads the GPU driver first.
	// +optional
	DriverManager ManagerSpec `json:"driverManager,omitempty"`
}

// VGPUManagerSpec is the vGPU host driver.
type VGPUManagerSpec struct {
	ComponentSpec `json:",inline"`
	// driverManager unloads the GPU driver first.
	// +optional
	DriverManager ManagerSpec `json:"driverManager,omitempty"`
	// kernelModuleConfig names module parameters.
	// +optional
	KernelModuleConfig *ConfigMapName `json:"kernelModuleConfig,omitempty"`
}

// VGPUDeviceManagerSpec makes vGPU devices.
type VGPUDeviceManagerSpec struct {
	ComponentSpec `json:",inline"`
	// config names the ConfigMap of vGPU layouts.
	// +optional
	Config *VGPUDevicesConfigSpec `json:"config,omitempty"`
}

// VGPUDevicesConfigSpec names the ConfigMap of vGPU layouts.
type VGPUDevicesConfigSpec struct {
	// name of the ConfigMap.
	// +optional
	Name string `json:"name,omitempty"`
	// default layout.
	// +kubebuilder:default=default
	// +optional
	Default string `json:"default,omitempty"`
}

// CCManagerSpec sets the confidential computing mode.
type CCManagerSpec struct {
	ComponentSpec `json:",inline"`
	// defaultMode of nodes without a label.
	// +kubebuilder:validation:Enum="on";"off";devtools
	// +optional
	DefaultMode string `json:"defaultMode,omitempty"`
}

// KataManagerSpec installs Kata runtime classes.
type KataManagerSpec struct {
	ComponentSpec `json:",inline"`
	// config of the artifacts.
	// +optional
	Config *KataManagerConfig `json:"config,omitempty"`
}

// KataManagerConfig are the Kata artifacts.
type KataManagerConfig struct {
	// artifactsDir on the host.
	// +kubebuilder:default=/opt/nvidia-gpu-operator/artifacts/runtimeclasses
	// +optional
	ArtifactsDir string `json:"artifactsDir,omitempty"`
	// runtimeClasses to install.
	// +optional
	RuntimeClasses []KataRuntimeClass `json:"runtimeClasses,omitempty"`
}

// KataRuntimeClass is one Kata runtime class.
type KataRuntimeClass struct {
	// name of the RuntimeClass.
	// +optional
	Name string `json:"name,omitempty"`
	// nodeSelector of the RuntimeClass.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// artifacts of the runtime.
	// +optional
	Artifacts KataArtifacts `json:"artifacts,omitempty"`
}

// KataArtifacts are where a Kata runtime comes from.
type KataArtifacts struct {
	// url of the artifact.
	// +optional
	URL string `json:"url,omitempty"`
	// pullSecret for the artifact.
	// +optional
	PullSecret string `json:"pullSecret,omitempty"`
}
