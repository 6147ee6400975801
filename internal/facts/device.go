package facts

// Inventory is what the driver's management library shows of a machine's GPUs at
// one moment.
type Inventory struct {
	// DriverVersion is the version of the loaded driver (550.163.01).
	DriverVersion string
	// CUDAVersion is the highest CUDA version of the driver as NVML tells it: 12040 is 12.4.
	CUDAVersion int
	// Devices are in order of their index.
	Devices []Device
}

// DeviceState is whether a GPU answers.
type DeviceState string

// States of a GPU.
const (
	// DevicePresent: it answers.
	DevicePresent DeviceState = "Present"
	// DeviceLost: the driver says that it is gone or refuses to talk about it.
	DeviceLost DeviceState = "Lost"
	// DeviceSilent: a question about it has not been answered in time.
	DeviceSilent DeviceState = "Silent"
)

// UnknownMinor and NoNUMA stand for a minor number or a NUMA node that is not known.
const (
	UnknownMinor = -1
	NoNUMA       = -1
)

// Device is one GPU. Of one that does not answer, what was known before stands.
type Device struct {
	// Index is NVML's, Minor the N of /dev/nvidiaN.
	Index, Minor int
	// UUID is GPU-…; empty when the GPU never answered.
	UUID string
	// BusID is the PCI address as sysfs names it (0000:19:00.0).
	BusID string
	// Class is the PCI class, six digits; empty when unknown.
	Class string
	// Product is the model's name as the driver gives it.
	Product string
	// Serial is the board's serial number; empty when it has none.
	Serial string
	// Memory is the whole frame buffer in bytes.
	Memory uint64
	// NUMA is the NUMA node of the PCI slot, or NoNUMA.
	NUMA int
	// ComputeMajor and ComputeMinor are the compute capability.
	ComputeMajor, ComputeMinor int
	// MIGCapable and MIGEnabled tell about partitioning; MIG are the partitions.
	MIGCapable, MIGEnabled bool
	MIG                    []MIGDevice
	// Links counts active NVLinks by the peer's PCI address; those that end at a
	// switch stand under LinkSwitch.
	Links map[string]int
	// State tells whether it answers, Fault why not.
	State DeviceState
	Fault string
}

// LinkSwitch is the peer of NVLinks that end at a switch: by it the GPU reaches
// every other GPU with such links.
const LinkSwitch = "switch"

// Present says whether the GPU answers.
func (d Device) Present() bool { return d.State == DevicePresent }

// MIGDevice is one partition of a GPU.
type MIGDevice struct {
	// UUID is MIG-….
	UUID string
	// Profile is the profile's name (1g.5gb, 1g.10gb+me).
	Profile string
	// GPUInstance and ComputeInstance are its ids within the GPU.
	GPUInstance, ComputeInstance int
	// Memory is in bytes.
	Memory uint64
	// GPUSlices and ComputeSlices are the sizes of its instances, Multiprocessors
	// and the engines what it can use.
	GPUSlices, ComputeSlices, Multiprocessors                        int
	CopyEngines, Decoders, Encoders, JPEGEngines, OpticalFlowEngines int
}

// WholeGPU is the instance id of an event that concerns the whole GPU.
const WholeGPU = -1

// XID is an error that the driver reported about a GPU.
type XID struct {
	// UUID is the GPU's.
	UUID string
	// Code is the number of the error.
	Code int
	// GPUInstance is the partition concerned, or WholeGPU.
	GPUInstance int
}

// RecoveryAction is what the driver says has to be done about a GPU.
type RecoveryAction int

// Recovery actions, with NVML's numbers. Any other number is something to be done too.
const (
	RecoveryNone   RecoveryAction = 0
	RecoveryReset  RecoveryAction = 1
	RecoveryReboot RecoveryAction = 2
	// RecoverySystemReboot: as RecoveryReboot, for the whole chassis.
	RecoverySystemReboot RecoveryAction = 7
	// RecoveryUnknown: this driver cannot be asked.
	RecoveryUnknown RecoveryAction = -1
)

// Probe is a fresh look at one GPU.
type Probe struct {
	// State and Fault are as in Device.
	State DeviceState
	Fault string
	// Action is the driver's own word on what the GPU needs.
	Action RecoveryAction
}

// Sample are the readings of one GPU at one moment.
type Sample struct {
	// Index, UUID, BusID, Minor and Product identify the GPU.
	Index, Minor         int
	UUID, BusID, Product string
	// State and Fault are as in Device.
	State DeviceState
	Fault string
	// Values are the readings by field name; what this GPU cannot tell is absent.
	Values map[string]float64
	// Texts are readings that are words, by field name.
	Texts map[string]string
}
