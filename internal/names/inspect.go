package names

// Host files and directories that the node inspector looks at, as the host sees them.
const (
	ProcDir       = "/proc"
	SysDir        = "/sys"
	EFIDir        = "/sys/firmware/efi"
	EFISecureBoot = EFIDir + "/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	OSReleaseUsr  = "/usr/lib/os-release"

	// CDIStaticDir holds CDI specs that packages and people install.
	CDIStaticDir = "/etc/cdi"

	// NvidiaRunDir is the parent of everything that lives below /run for one boot.
	NvidiaRunDir = "/run/nvidia"
	// ValidationsDir is where images of the peer project leave their barrier files;
	// read only as a hint to look again.
	ValidationsDir = NvidiaRunDir + "/validations"

	DevDir     = "/dev"
	DevCaps    = DevDir + "/nvidia-caps"
	DevControl = DevDir + "/nvidiactl"
	DevUVM     = DevDir + "/nvidia-uvm"

	LibraryCache = "/etc/ld.so.cache"
	DpkgStatus   = "/var/lib/dpkg/status"

	// KubeletConfigFile is where installers put the kubelet's configuration.
	KubeletConfigFile = KubeletRoot + "/config.yaml"

	K3sContainerdSocket      = "/run/k3s/containerd/containerd.sock"
	MicroK8sContainerdSocket = "/var/snap/microk8s/common/run/containerd.sock"
	CRIOSocket               = "/var/run/crio/crio.sock"
	CRIOConfig               = "/etc/crio/crio.conf"
	DockerConfig             = "/etc/docker/daemon.json"
)

// Paths relative to the configurable procfs root of the GPU.
const (
	// DriverGPUsDir has one directory a GPU that the driver holds, named by its PCI address.
	DriverGPUsDir = DriverProcDir + "/gpus"
)

// SearchPath is the PATH of programs that are started on a host.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// MachineTypeDir holds the machine's product name.
const MachineTypeDir = "/sys/class/dmi/id"

// VolatileDirs returns the directories that a reboot empties, under both of their names.
func VolatileDirs() []string { return []string{"/run/", "/var/run/"} }

// UnitDirs returns the directories of unit files, in systemd's order.
func UnitDirs() []string {
	return []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}
}

// BinaryDirs returns the directories in which a daemon that was started without a
// path is looked for, in the order of a usual PATH.
func BinaryDirs() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/bin"}
}

// LibraryDirs returns the directories, below a driver root, in which NVIDIA's
// libraries lie on the systems known to us: Debian's and Red Hat's layout, Talos
// before and since 1.9, Flatcar, COS, NixOS and WSL. The linker's cache is asked first.
func LibraryDirs() []string {
	return []string{
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
		"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib",
		"/usr/lib64/nvidia", "/usr/local/lib64", "/usr/local/lib",
		"/usr/local/glibc/usr/lib", "/usr/lib/glibc", "/usr/glibc/usr/lib", "/usr/glibc/lib",
		"/opt/nvidia/lib64", "/home/kubernetes/bin/nvidia/lib64",
		"/run/opengl-driver/lib", "/usr/lib/wsl/lib",
	}
}
