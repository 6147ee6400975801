package v1

import corev1 "k8s.io/api/core/v1"

// EnvVar is an environment variable of a container.
type EnvVar struct {
	// name of the variable.
	Name string `json:"name"`
	// value of the variable; no references are expanded.
	// +optional
	Value string `json:"value,omitempty"`
}

// ResourceRequirements are the compute resources of a container.
type ResourceRequirements struct {
	// limits are the most that a container may use.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// requests are the least that a container needs.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// ImageSpec names the image of a component. When repository, image and version are
// all unset, the operator's built-in image runs; when image is set, the image's
// authors' own contract (entrypoint, environment, mounts) is followed.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.repository) && size(self.repository) > 0) || (has(self.image) && size(self.image) > 0)",message="repository is set without image: set image too (repository/image:version), or neither to run the built-in image"
type ImageSpec struct {
	// repository is the registry and path before the image's name.
	// +optional
	Repository string `json:"repository,omitempty"`
	// image is the name of the image, without repository and tag.
	// +kubebuilder:validation:Pattern=`[a-zA-Z0-9\-]+`
	// +optional
	Image string `json:"image,omitempty"`
	// version is the tag, or the digest as sha256:<64 hexadecimal digits>.
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('sha256:') || self.matches('^sha256:[a-f0-9]{64}$')",message="a digest is sha256: followed by 64 hexadecimal digits in lower case"
	// +optional
	Version string `json:"version,omitempty"`
	// imagePullPolicy is Always, IfNotPresent or Never; default IfNotPresent.
	// +optional
	ImagePullPolicy string `json:"imagePullPolicy,omitempty"`
	// imagePullSecrets are names of Secrets in the operator's namespace.
	// +optional
	ImagePullSecrets []string `json:"imagePullSecrets,omitempty"`
}

// ContainerSpec is a component's image with its arguments and environment.
type ContainerSpec struct {
	ImageSpec `json:",inline"`
	// args are added to the container's arguments.
	// +optional
	Args []string `json:"args,omitempty"`
	// env are added to the container's environment; a name set here wins.
	// +optional
	Env []EnvVar `json:"env,omitempty"`
}

// ComponentSpec is what every operand has.
type ComponentSpec struct {
	ContainerSpec `json:",inline"`
	// enabled says whether the operand is deployed; default true for the operands
	// of the container workload, false for all others.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// resources of the operand's containers.
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`
	// hostNetwork runs the operand's pods in the host's network.
	// +optional
	HostNetwork *bool `json:"hostNetwork,omitempty"`
}

// IsEnabled is enabled, or fallback when it is unset.
func (c ComponentSpec) IsEnabled(fallback bool) bool {
	if c.Enabled == nil {
		return fallback
	}
	return *c.Enabled
}

// EnvSpec is a part of a component that takes environment only.
type EnvSpec struct {
	// env are added to the environment.
	// +optional
	Env []EnvVar `json:"env,omitempty"`
}

// ManagerSpec is a helper container with an image of its own.
type ManagerSpec struct {
	ImageSpec `json:",inline"`
	// env are added to the environment.
	// +optional
	Env []EnvVar `json:"env,omitempty"`
}

// ConfigMapName names a ConfigMap in the operator's namespace.
type ConfigMapName struct {
	// name of the ConfigMap.
	// +optional
	Name string `json:"name,omitempty"`
}

// ContainerProbe are the timings of a probe.
type ContainerProbe struct {
	// initialDelaySeconds before the first probe.
	// +optional
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// timeoutSeconds of one probe.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// periodSeconds between probes.
	// +kubebuilder:validation:Minimum=1
	// +optional
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// successThreshold is how many successes in a row count.
	// +kubebuilder:validation:Minimum=1
	// +optional
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	// failureThreshold is how many failures in a row count.
	// +kubebuilder:validation:Minimum=1
	// +optional
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// Duration is a Prometheus duration (30s, 1m).
//
// +kubebuilder:validation:Pattern=`^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$`
type Duration string

// ServiceMonitorSpec asks for a ServiceMonitor of the Prometheus operator.
type ServiceMonitorSpec struct {
	// enabled creates the ServiceMonitor; default false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// interval between scrapes.
	// +optional
	Interval Duration `json:"interval,omitempty"`
	// scrapeTimeout of one scrape.
	// +optional
	ScrapeTimeout Duration `json:"scrapeTimeout,omitempty"`
	// honorLabels keeps the metric's own labels when they clash with the target's.
	// +optional
	HonorLabels *bool `json:"honorLabels,omitempty"`
	// additionalLabels are put on the ServiceMonitor.
	// +optional
	AdditionalLabels map[string]string `json:"additionalLabels,omitempty"`
	// relabelings are applied before scraping.
	// +optional
	Relabelings []RelabelConfig `json:"relabelings,omitempty"`
}

// RelabelConfig is a rule by which Prometheus rewrites a target's labels.
type RelabelConfig struct {
	// sourceLabels whose values are joined.
	// +optional
	SourceLabels []string `json:"sourceLabels,omitempty"`
	// separator between the joined values; default ";".
	// +optional
	Separator *string `json:"separator,omitempty"`
	// targetLabel takes the result.
	// +optional
	TargetLabel string `json:"targetLabel,omitempty"`
	// regex that the joined value is matched with.
	// +optional
	Regex string `json:"regex,omitempty"`
	// modulus of the hash of the source values.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Modulus int64 `json:"modulus,omitempty"`
	// replacement for the target label.
	// +optional
	Replacement *string `json:"replacement,omitempty"`
	// action of the rule.
	// +kubebuilder:validation:Enum=replace;Replace;keep;Keep;drop;Drop;hashmod;HashMod;labelmap;LabelMap;labeldrop;LabelDrop;labelkeep;LabelKeep;lowercase;Lowercase;uppercase;Uppercase;keepequal;KeepEqual;dropequal;DropEqual
	// +kubebuilder:default=replace
	// +optional
	Action string `json:"action,omitempty"`
}
