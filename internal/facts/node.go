package facts

import "gpu-operator/api/v1alpha1"

// Kinds of driver.
const (
	DriverNone    = "None"
	DriverHost    = "Host"
	DriverManaged = "Managed"
)

// Words for drift.
const (
	DriftNone    = "None"
	DriftDrifted = "Drifted"
	DriftUnknown = "Unknown"
)

// Node is everything that was seen on one node at one moment: the input of checks
// and of the fingerprint.
type Node struct {
	// Identity is kernel, system, boot and runtime.
	Identity v1alpha1.NodeFacts
	// GPUs are the NVIDIA display devices of the PCI tree; PCIError says why it could
	// not be read.
	GPUs     []v1alpha1.PCIGPU
	PCIError string
	// Driver is which driver answers.
	Driver v1alpha1.DriverState
	// Modules are the loaded kernel modules.
	Modules []Module
	// DriverGPUs are the PCI addresses of the GPUs that the loaded driver holds; nil
	// when it does not say.
	DriverGPUs []string
	// UVMDevice says that the device node of unified memory is there.
	UVMDevice bool
	// Evidence is this boot's; StaleEvidence are files of another boot, BadEvidence
	// those that cannot be read.
	Evidence      []v1alpha1.StepEvidence
	StaleEvidence []string
	BadEvidence   []string
	// CDI are the specs of NVIDIA's kinds; BadCDI are files that are no CDI spec.
	CDI    []CDIFile
	BadCDI []string
	// HostChanges is what the ledger says, LedgerError why it could not be read.
	HostChanges []v1alpha1.HostChange
	LedgerError string
	// Files are the whole files of the ledger as they are on disk now.
	Files []HostFile
	// Kubelet is what the kubelet was told, Runtime what serves it.
	Kubelet Kubelet
	// RuntimeError says why the runtime could not be found.
	RuntimeError string
	// DevicePluginSockets are the registration sockets of a kubelet that were found.
	DevicePluginSockets []string
}

// CDIFile is a CDI spec with where it lies.
type CDIFile struct {
	CDI
	// Path on the host, Missing the first host path that it names and that is not there.
	Path, Missing string
}

// HostFile is a whole file that we put on the host.
type HostFile struct {
	// Path on the host, Hash the sha256 of its present content ("" when it is gone).
	Path, Hash string
}
