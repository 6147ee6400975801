package names

// Host paths, as the host sees them. Inside a container they are reached below
// a host root (HostMount by default).
const (
	// HostMount is where operands that need the host's file system find it.
	HostMount = "/host"

	// StateDir holds what must survive a reboot: the ledger.
	StateDir   = "/var/lib/gpu-operator"
	LedgerFile = StateDir + "/ledger"
	// RunDir is on tmpfs: evidence of this boot.
	RunDir = "/run/nvidia/gpu-operator"
	// EvidenceSuffix ends the evidence files RunDir/<step>.json.
	EvidenceSuffix = ".json"

	// ToolkitInstallDir is the default of spec.toolkit.installDir; binaries go to
	// its sub-directory "toolkit", as the peer's.
	ToolkitInstallDir = "/usr/local/nvidia"
	ToolkitSubdir     = "toolkit"

	// ManagedDriverRoot is the root of a driver that runs from a container.
	ManagedDriverRoot = "/run/nvidia/driver"
	// HostDriverRoot is the root of a driver that is part of the OS image.
	HostDriverRoot = "/"

	// CDIDir holds generated CDI specs; on tmpfs.
	CDIDir = "/var/run/cdi"
	// CDISpecFile and CDIManagementSpecFile are ours.
	CDISpecFile           = CDIDir + "/nvidia.com-gpu.yaml"
	CDIManagementSpecFile = CDIDir + "/management.nvidia.com-gpu.yaml"

	ContainerdConfig       = "/etc/containerd/config.toml"
	ContainerdDropInDir    = "/etc/containerd/conf.d"
	ContainerdDropInFile   = ContainerdDropInDir + "/99-nvidia.toml"
	ContainerdSocket       = "/run/containerd/containerd.sock"
	KubeletRoot            = "/var/lib/kubelet"
	KubeletDevicePluginDir = "/var/lib/kubelet/device-plugins"
	KubeletPodResources    = "/var/lib/kubelet/pod-resources"
	SystemBusSocket        = "/run/dbus/system_bus_socket"

	BootIDFile    = "/proc/sys/kernel/random/boot_id"
	KernelRelease = "/proc/sys/kernel/osrelease"
	OSReleaseFile = "/etc/os-release"
)

// Paths relative to the configurable sysfs and procfs roots of the GPU.
const (
	PCIDevicesDir       = "bus/pci/devices"
	ModuleVersionFile   = "module/nvidia/version"
	ModuleRefcountFile  = "module/nvidia/refcnt"
	DriverVersionProc   = "driver/nvidia/version"
	DriverProcDir       = "driver/nvidia"
	ModulesProc         = "modules"
	ToolkitPayloadDir   = "/opt/nvidia-container-toolkit/bin"
	ContainerSysfsMount = "/host-sys"
	ContainerProcfMount = "/host-proc"
)
