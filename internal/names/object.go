package names

// DefaultNamespace is where the operator and its operands run unless the chart
// is told otherwise; the same as the peer project's.
const DefaultNamespace = "gpu-operator"

// DaemonSets, under the names that runbooks and dashboards know.
const (
	DaemonSetInspector        = "nvidia-node-inspector"
	DaemonSetDriver           = "nvidia-driver-daemonset"
	DaemonSetToolkit          = "nvidia-container-toolkit-daemonset"
	DaemonSetDevicePlugin     = "nvidia-device-plugin-daemonset"
	DaemonSetFeatureDiscovery = "gpu-feature-discovery"
	DaemonSetExporter         = "nvidia-dcgm-exporter"
)

// Service accounts. Operands without API access run under ServiceAccountNone,
// whose token is never mounted.
const (
	ServiceAccountOperator  = "gpu-operator"
	ServiceAccountInspector = "nvidia-node-inspector"
	ServiceAccountDiscovery = "gpu-feature-discovery"
	ServiceAccountNone      = "nvidia-gpu-operand"
)

// Field managers for server-side apply: one per writer of a GPUNode.
const (
	FieldManagerOperator  = "gpu-operator"
	FieldManagerInspector = "nvidia-node-inspector"
	FieldManagerDiscovery = "gpu-feature-discovery"
)

// RuntimeClasses and the handlers of the same names. RuntimeManagement gives
// every GPU to a Pod without privilege; admission keeps it for the operator's
// own namespace.
const (
	RuntimeNVIDIA     = "nvidia"
	RuntimeManagement = "nvidia-management"
)

// WorkloadHandlers are the handlers for GPU Pods, each with a RuntimeClass of its name:
// the policy's own first, then those that existing manifests name. They are one
// runtime: devices come by CDI under all of them.
func WorkloadHandlers(own string) []string {
	out := []string{own}
	for _, name := range []string{RuntimeNVIDIA + "-cdi", RuntimeNVIDIA + "-legacy"} {
		if name != own {
			out = append(out, name)
		}
	}
	return out
}

// Resource names that the device plugin advertises.
const (
	ResourceGPU       = "nvidia.com/gpu"
	ResourceMIGPrefix = "nvidia.com/mig-"
)

// CDI kinds.
const (
	CDIVendor     = "nvidia.com"
	CDIClass      = "gpu"
	CDIKind       = CDIVendor + "/" + CDIClass
	CDIManagement = "management.nvidia.com/gpu"
	// CDIAnnotationPrefix is the annotation prefix under which the device plugin
	// hands CDI device names to runtimes without native CDI support.
	CDIAnnotationPrefix = "cdi.k8s.io/"
)

// Labels on the operator's own objects.
const (
	LabelApp       = "app"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPartOf    = "app.kubernetes.io/part-of"
	ManagedBy      = "gpu-operator"
)

// Finalizer keeps a ClusterPolicy until every host is as it was born.
const Finalizer = "nvidia.com/gpu-operator"
