package inspector

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/check"
	"gpu-operator/internal/facts"
	"gpu-operator/internal/plan"
)

// StatusOf derives the inspector's part of a GPUNode's status. Pure; fields of other
// writers stay empty.
func StatusOf(n facts.Node) v1alpha1.GPUNodeStatus {
	identity, driver := n.Identity, n.Driver
	st := v1alpha1.GPUNodeStatus{
		Facts:       &identity,
		PCIGPUs:     n.GPUs,
		PCIScanned:  n.PCIError == "",
		GPUCount:    int32(len(n.GPUs)),
		Driver:      &driver,
		Evidence:    n.Evidence,
		HostChanges: n.HostChanges,
		Fingerprint: facts.FingerprintOf(n),
		Drift:       driftOf(n),
		Findings:    check.All(n),
	}
	for _, c := range n.CDI {
		st.CDI = append(st.CDI, v1alpha1.CDISpec{Path: c.Path, Kind: c.Kind, Devices: c.Devices, DriverVersion: c.DriverVersion, Missing: c.Missing})
	}
	return st
}

// driftOf says in one word whether the host is as the ledger left it.
func driftOf(n facts.Node) string {
	if n.LedgerError != "" {
		return facts.DriftUnknown
	}
	for _, c := range n.HostChanges {
		if c.State != plan.StatusOurs {
			return facts.DriftDrifted
		}
	}
	return facts.DriftNone
}

// Own returns the part of a status that the inspector writes.
func Own(st v1alpha1.GPUNodeStatus) v1alpha1.GPUNodeStatus {
	return v1alpha1.GPUNodeStatus{
		Facts: st.Facts, PCIGPUs: st.PCIGPUs, PCIScanned: st.PCIScanned, GPUCount: st.GPUCount, Driver: st.Driver,
		Evidence: st.Evidence, CDI: st.CDI, HostChanges: st.HostChanges, Fingerprint: st.Fingerprint,
		Drift: st.Drift, Findings: st.Findings,
	}
}
