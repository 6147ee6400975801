package v1alpha1

// Severities of findings.
const (
	// SeverityInfo: worth knowing; nothing is wrong.
	SeverityInfo = "Info"
	// SeverityWarning: something works less well than it should, or will fail later.
	SeverityWarning = "Warning"
	// SeverityError: GPUs of this node cannot be used until it is mended.
	SeverityError = "Error"
)

// Reasons of findings, by which the node inspector says what is wrong on a node.
const (
	// FindingPCIUnreadable: surfaces when the PCI tree cannot be read, so that nothing
	// can be said about GPUs. Remedy: mount the host's sysfs into the inspector.
	FindingPCIUnreadable = "PCIUnreadable"
	// FindingForeignDriver: surfaces when another kernel driver than NVIDIA's holds a
	// GPU (nouveau, nova_core). Remedy: blacklist it, rebuild the initramfs, reboot.
	FindingForeignDriver = "ForeignDriver"
	// FindingGPUPassedThrough: surfaces when a GPU is bound to vfio-pci and so belongs to
	// virtual machines; it is left alone. Remedy: none, or unbind it.
	FindingGPUPassedThrough = "GPUPassedThrough"
	// FindingGPUUnbound: surfaces when the driver is loaded but a GPU is bound to none.
	// Remedy: look at the kernel's log for the device's address.
	FindingGPUUnbound = "GPUUnbound"
	// FindingGPULost: surfaces when the PCI tree lists a GPU as NVIDIA's that the driver
	// does not hold: it fell off the bus or failed to initialise. Remedy: reset or
	// reboot; when it returns, have the card replaced.
	FindingGPULost = "GPULost"
	// FindingDriverNotLoaded: surfaces when there is a GPU and module nvidia is not loaded.
	// Remedy: install or load a driver, or let the operator manage it (driver.enabled: true).
	FindingDriverNotLoaded = "DriverNotLoaded"
	// FindingDriverLibraryMissing: surfaces when the module is loaded but its library was
	// not found; the evidence lists every path tried. Remedy: install the user-space part.
	FindingDriverLibraryMissing = "DriverLibraryMissing"
	// FindingDriverVersionMismatch: surfaces when library and loaded module are of
	// different versions: an update was installed under a running module. Remedy: reload
	// the module or reboot.
	FindingDriverVersionMismatch = "DriverVersionMismatch"
	// FindingDriverDeviceMissing: surfaces when the driver's control device node is not
	// there. Remedy: run nvidia-modprobe, or repair the udev rule.
	FindingDriverDeviceMissing = "DriverDeviceMissing"
	// FindingUVMMissing: surfaces when the driver answers but module nvidia_uvm or its
	// device node is absent: nvidia-smi works and every CUDA program fails. Remedy: load
	// nvidia_uvm (nvidia-modprobe -u).
	FindingUVMMissing = "UVMMissing"
	// FindingModuleUnloading: surfaces when a module of the driver is stuck in its unload.
	// Remedy: reboot; nothing else frees it.
	FindingModuleUnloading = "ModuleUnloading"
	// FindingSecureBootBlocksDriver: surfaces when Secure Boot is on and no module is
	// loaded on a GPU node: an unsigned module is refused. Remedy: enrol the signing key
	// or use a signed driver.
	FindingSecureBootBlocksDriver = "SecureBootBlocksDriver"
	// FindingRuntimeNotFound: surfaces when the container runtime that serves the kubelet
	// cannot be told. Remedy: see the evidence for what was looked for.
	FindingRuntimeNotFound = "RuntimeNotFound"
	// FindingKubeletRootMoved: surfaces when the kubelet's root directory is another than
	// the usual one; the evidence names the registration sockets that exist.
	FindingKubeletRootMoved = "KubeletRootMoved"
	// FindingCDIStale: surfaces when a CDI spec was made for another driver version than
	// the loaded one. Remedy: delete it or have it made again.
	FindingCDIStale = "CDIStale"
	// FindingCDIPathMissing: surfaces when a CDI spec names a host path that is not there:
	// containers that use it cannot be created. Remedy: as for CDIStale.
	FindingCDIPathMissing = "CDIPathMissing"
	// FindingCDIDuplicate: surfaces when two CDI specs define devices of one kind; the
	// runtime refuses devices with the same name. Remedy: remove the one that is not
	// wanted, usually the one in /etc/cdi.
	FindingCDIDuplicate = "CDIDuplicate"
	// FindingCDIInvalid: surfaces when a file among the CDI specs is none; some runtimes
	// then refuse all of them. Remedy: repair or remove it.
	FindingCDIInvalid = "CDIInvalid"
	// FindingEvidenceStale: surfaces when evidence of another boot lies on the host: its
	// directory outlived a reboot. It is not used. Remedy: make /run a tmpfs.
	FindingEvidenceStale = "EvidenceStale"
	// FindingEvidenceInvalid: surfaces when an evidence file cannot be read. It is not used.
	// Remedy: remove the file; the operand writes it again.
	FindingEvidenceInvalid = "EvidenceInvalid"
	// FindingHostDrift: surfaces when somebody else changed or removed a host file that we
	// wrote. Remedy: the operand that owns it repairs it; find the other writer.
	FindingHostDrift = "HostDrift"
	// FindingLedgerInvalid: surfaces when the record of host changes cannot be read.
	// Nothing is changed on such a host. Remedy: restore or remove the file by hand.
	FindingLedgerInvalid = "LedgerInvalid"
)
