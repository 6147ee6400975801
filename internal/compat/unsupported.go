// Package compat compares what a policy asks for with what this version does:
// fields of the peer project's ClusterPolicy that are accepted and not
// implemented are named by path when they are set to something that would matter.
package compat

import (
	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/names"
)

// field is one row: a path, and whether a spec sets it to something that matters.
type field struct {
	path string
	set  func(v1.ClusterPolicySpec) bool
}

// on reports whether a switch is on.
func on(b *bool) bool { return b != nil && *b }

// fields is the table of what is accepted and not implemented.
func fields() []field {
	image := func(i v1.ImageSpec) bool { return i.Image != "" }
	return []field{
		{"spec.toolkit.image", func(s v1.ClusterPolicySpec) bool { return image(s.Toolkit.ImageSpec) }},
		{"spec.devicePlugin.image", func(s v1.ClusterPolicySpec) bool { return image(s.DevicePlugin.ImageSpec) }},
		{"spec.gfd.image", func(s v1.ClusterPolicySpec) bool { return image(s.GPUFeatureDiscovery.ImageSpec) }},
		{"spec.dcgmExporter.image", func(s v1.ClusterPolicySpec) bool { return image(s.DCGMExporter.ImageSpec) }},
		{"spec.devicePlugin.config", func(s v1.ClusterPolicySpec) bool {
			return s.DevicePlugin.Config != nil && s.DevicePlugin.Config.Name != ""
		}},
		{"spec.mig.strategy", func(s v1.ClusterPolicySpec) bool { return s.MIG.Strategy == "single" || s.MIG.Strategy == "mixed" }},
		{"spec.migManager", func(s v1.ClusterPolicySpec) bool { return s.MIGManager.IsEnabled(false) }},
		{"spec.dcgm", func(s v1.ClusterPolicySpec) bool { return s.DCGM.IsEnabled(false) }},
		{"spec.dcgmExporter.config", func(s v1.ClusterPolicySpec) bool {
			return s.DCGMExporter.MetricsConfig != nil && s.DCGMExporter.MetricsConfig.Name != ""
		}},
		{"spec.dcgmExporter.serviceMonitor", func(s v1.ClusterPolicySpec) bool {
			return s.DCGMExporter.ServiceMonitor != nil && on(s.DCGMExporter.ServiceMonitor.Enabled)
		}},
		{"spec.dcgmExporter.enablePodLabels", func(s v1.ClusterPolicySpec) bool { return on(s.DCGMExporter.EnablePodLabels) }},
		{"spec.dcgmExporter.enablePodUID", func(s v1.ClusterPolicySpec) bool { return on(s.DCGMExporter.EnablePodUID) }},
		{"spec.dcgmExporter.hpcJobMapping", func(s v1.ClusterPolicySpec) bool {
			return s.DCGMExporter.HPCJobMapping != nil && on(s.DCGMExporter.HPCJobMapping.Enabled)
		}},
		{"spec.dcgmExporter.hostPID", func(s v1.ClusterPolicySpec) bool { return on(s.DCGMExporter.HostPID) }},
		{"spec.nodeStatusExporter", func(s v1.ClusterPolicySpec) bool { return s.NodeStatusExporter.IsEnabled(false) }},
		{"spec.operator.metrics.serviceMonitor", func(s v1.ClusterPolicySpec) bool {
			return s.Operator.Metrics.ServiceMonitor != nil && on(s.Operator.Metrics.ServiceMonitor.Enabled)
		}},
		{"spec.driver.useNvidiaDriverCRD", func(s v1.ClusterPolicySpec) bool { return on(s.Driver.UseNvidiaDriverCRD) }},
		{"spec.driver.usePrecompiled", func(s v1.ClusterPolicySpec) bool { return on(s.Driver.UsePrecompiled) }},
		{"spec.driver.rdma", func(s v1.ClusterPolicySpec) bool {
			return s.Driver.GPUDirectRDMA != nil && on(s.Driver.GPUDirectRDMA.Enabled)
		}},
		{"spec.driver.upgradePolicy.autoUpgrade", func(s v1.ClusterPolicySpec) bool {
			return s.Driver.UpgradePolicy != nil && s.Driver.UpgradePolicy.AutoUpgrade
		}},
		{"spec.driver.repoConfig", func(s v1.ClusterPolicySpec) bool {
			return s.Driver.RepoConfig != nil && s.Driver.RepoConfig.ConfigMapName != ""
		}},
		{"spec.driver.certConfig", func(s v1.ClusterPolicySpec) bool { return s.Driver.CertConfig != nil && s.Driver.CertConfig.Name != "" }},
		{"spec.driver.licensingConfig", func(s v1.ClusterPolicySpec) bool {
			l := s.Driver.LicensingConfig
			return l != nil && (l.ConfigMapName != "" || l.SecretName != "")
		}},
		{"spec.driver.virtualTopology", func(s v1.ClusterPolicySpec) bool {
			return s.Driver.VirtualTopology != nil && s.Driver.VirtualTopology.Config != ""
		}},
		{"spec.driver.kernelModuleConfig", func(s v1.ClusterPolicySpec) bool {
			return s.Driver.KernelModuleConfig != nil && s.Driver.KernelModuleConfig.Name != ""
		}},
		{"spec.driver.secretEnv", func(s v1.ClusterPolicySpec) bool { return s.Driver.SecretEnv != "" }},
		{"spec.gds", func(s v1.ClusterPolicySpec) bool { return s.GPUDirectStorage != nil && on(s.GPUDirectStorage.Enabled) }},
		{"spec.gdrcopy", func(s v1.ClusterPolicySpec) bool { return s.GDRCopy != nil && on(s.GDRCopy.Enabled) }},
		{"spec.sandboxWorkloads", func(s v1.ClusterPolicySpec) bool { return on(s.SandboxWorkloads.Enabled) }},
		{"spec.cdi.enabled", func(s v1.ClusterPolicySpec) bool { return s.CDI.Enabled != nil && !*s.CDI.Enabled }},
		{"spec.cdi.nriPluginEnabled", func(s v1.ClusterPolicySpec) bool { return on(s.CDI.NRIPluginEnabled) }},
		{"spec.hostPaths.driverInstallDir", func(s v1.ClusterPolicySpec) bool {
			return s.HostPaths.DriverInstallDir != "" && s.HostPaths.DriverInstallDir != names.ManagedDriverRoot
		}},
		{"spec.hostPaths.rootFS", func(s v1.ClusterPolicySpec) bool { return s.HostPaths.RootFS != "" && s.HostPaths.RootFS != "/" }},
	}
}

// Unsupported lists the paths of fields that spec sets to something that would
// matter and that this version does not implement, in the table's order.
func Unsupported(spec v1.ClusterPolicySpec) []string {
	var paths []string
	for _, f := range fields() {
		if f.set(spec) {
			paths = append(paths, f.path)
		}
	}
	return paths
}
