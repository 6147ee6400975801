package fault

// Reasons of the host side. Each is the value of a condition's or evidence's
// reason and is documented where conditions are documented.
const (
	// ReasonRuntimeConfigInvalid: surfaces when the container runtime's configuration
	// is not valid TOML, or has a shape that cannot be edited safely. Nothing was
	// written. Remedy: repair the file at the line and column named.
	ReasonRuntimeConfigInvalid = "RuntimeConfigInvalid"
	// ReasonRuntimeUnsupported: surfaces when the node's container runtime or its
	// distribution is not handled (CRI-O, Docker), or cannot be as it is set up. Nothing was written.
	ReasonRuntimeUnsupported = "RuntimeUnsupported"
	// ReasonHandlerTaken: surfaces when somebody else's configuration defines a runtime
	// handler of our name in a way that we may not override. Remedy: remove it or
	// choose another name.
	ReasonHandlerTaken = "HandlerTaken"
	// ReasonDryRunFailed: surfaces when the runtime's own reading of the planned
	// configuration fails or does not show the handlers. Nothing was written.
	ReasonDryRunFailed = "DryRunFailed"
	// ReasonRestartUnsafe: surfaces when restarting the runtime's unit would kill the
	// node's containers (KillMode is not process or mixed). Remedy: fix the unit.
	ReasonRestartUnsafe = "RestartUnsafe"
	// ReasonRestartFailed: surfaces when the runtime did not come back with the
	// handlers; the change was rolled back.
	ReasonRestartFailed = "RestartFailed"
	// ReasonRestartLimited: surfaces when the runtime was restarted too often in a
	// short time and further restarts wait.
	ReasonRestartLimited = "RestartLimited"
	// ReasonHandlersMissing: surfaces while the running runtime does not list the handlers.
	ReasonHandlersMissing = "HandlersMissing"
	// ReasonRuntimeNotAnswering: surfaces when the CRI socket does not answer.
	ReasonRuntimeNotAnswering = "RuntimeNotAnswering"
	// ReasonHostFileChanged: surfaces when a file was changed by somebody else between
	// looking at it and writing it, or is changed again and again. Remedy: find the
	// writer that is named, or give it the change to make.
	ReasonHostFileChanged = "HostFileChanged"
	// ReasonHostReadOnly: surfaces when a host path cannot be written. Remedy: choose a
	// writable directory (spec.toolkit.installDir, spec.toolkit.env).
	ReasonHostReadOnly = "HostReadOnly"
	// ReasonHostLocked: surfaces when another process changes this host right now.
	ReasonHostLocked = "HostLocked"
	// ReasonLedgerInvalid: surfaces when the ledger cannot be read. Nothing is changed
	// on such a host. Remedy: restore or remove the ledger file by hand.
	ReasonLedgerInvalid = "LedgerInvalid"
	// ReasonPayloadMissing: surfaces when the image lacks a file to install.
	ReasonPayloadMissing = "PayloadMissing"
	// ReasonApplyFailed: surfaces when a host change failed for another cause.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonWaitingForPods: surfaces during uninstall while Pods still run under our
	// runtime handlers. Remedy: delete the Pods that are named.
	ReasonWaitingForPods = "WaitingForPods"
	// ReasonDriverNotLoaded: surfaces when the kernel module nvidia is not loaded.
	ReasonDriverNotLoaded = "DriverNotLoaded"
	// ReasonDriverLibraryMissing: surfaces when the module is loaded but no
	// libnvidia-ml.so.1 was found; the message lists every path tried.
	ReasonDriverLibraryMissing = "DriverLibraryMissing"
	// ReasonDriverVersionMismatch: surfaces when module and library are of different versions.
	ReasonDriverVersionMismatch = "DriverVersionMismatch"
	// ReasonDriverDeviceMissing: surfaces when /dev/nvidiactl is not there.
	ReasonDriverDeviceMissing = "DriverDeviceMissing"
	// ReasonCDIFailed: surfaces when the CDI specs could not be generated or name a
	// host path that is not there.
	ReasonCDIFailed = "CDIFailed"
)
