package operand

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/names"
)

// HealthPort serves /healthz and /readyz of every node process.
const HealthPort = 8080

// Mount is a host path in a pod.
type Mount struct {
	Name, Host, At string
	ReadOnly       bool
	// Propagation is "" (none), HostToContainer or Bidirectional.
	Propagation corev1.MountPropagationMode
	// Type is what the host path must be; "" checks nothing.
	Type corev1.HostPathType
}

// Spec is what one operand's DaemonSet varies.
type Spec struct {
	// Name of the DaemonSet; Container of its main container.
	Name, Container string
	// Component is the short name of the step.
	Component string
	// Gate is the node label that lets pods in; "" means every Linux node.
	Gate string
	// Args and Env of the built-in process.
	Args []string
	Env  []corev1.EnvVar
	// Image and Command replace the built-in image and its entrypoint.
	Image   string
	Command []string
	Mounts  []Mount
	// Privileged pods are root on the node; all others hold no capability at all.
	Privileged bool
	HostPID    bool
	// ServiceAccount whose token is mounted; "" mounts none.
	ServiceAccount string
	// RuntimeClass of the pod; "" is the node's default runtime.
	RuntimeClass string
	// Port is the metrics port; 0 is none. HealthOn is the port of the probes; 0 is none.
	Port, HealthOn int32
	// TolerateAll lets the pod on every node, whatever its taints.
	TolerateAll bool
	// Component settings of the policy.
	Settings v1.ComponentSpec
	// StartupProbe of containers that take their time.
	StartupProbe *corev1.Probe
}

// DaemonSet builds the DaemonSet of s.
func DaemonSet(in Input, s Spec) *appsv1.DaemonSet {
	labels := map[string]string{names.LabelApp: s.Name}
	ds := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: Meta(in, s.Name, s.Component),
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: strategy(in.Policy.Spec.Daemonsets),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels(in, s), Annotations: in.Policy.Spec.Daemonsets.Annotations},
				Spec:       podSpec(in, s),
			},
		},
	}
	return ds
}

// Meta is the metadata of an object of the operator.
func Meta(in Input, name, component string) metav1.ObjectMeta {
	labels := map[string]string{}
	maps.Copy(labels, in.Policy.Spec.Operator.Labels)
	maps.Copy(labels, map[string]string{
		names.LabelApp: name, names.LabelComponent: component, names.LabelManagedBy: names.ManagedBy, names.LabelPartOf: names.ManagedBy,
	})
	return metav1.ObjectMeta{Name: name, Namespace: in.Namespace, Labels: labels, Annotations: in.Policy.Spec.Operator.Annotations}
}

// podLabels are the policy's labels and, winning, our own.
func podLabels(in Input, s Spec) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, in.Policy.Spec.Daemonsets.Labels)
	labels[names.LabelApp], labels[names.LabelComponent] = s.Name, s.Component
	labels[names.LabelManagedBy], labels[names.LabelPartOf] = names.ManagedBy, names.ManagedBy
	return labels
}

// strategy is how a changed DaemonSet reaches its pods.
func strategy(d v1.DaemonsetsSpec) appsv1.DaemonSetUpdateStrategy {
	if d.UpdateStrategy == string(appsv1.OnDeleteDaemonSetStrategyType) {
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	most := intstr.FromInt32(1)
	if d.RollingUpdate != nil && d.RollingUpdate.MaxUnavailable != "" {
		most = intstr.Parse(d.RollingUpdate.MaxUnavailable)
	}
	return appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &most, MaxSurge: new(intstr.FromInt32(0))},
	}
}

// podSpec is the pod of s.
func podSpec(in Input, s Spec) corev1.PodSpec {
	d := in.Policy.Spec.Daemonsets
	p := corev1.PodSpec{
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:                   tolerations(d, s.TolerateAll),
		PriorityClassName:             d.PriorityClassName,
		HostPID:                       s.HostPID,
		HostNetwork:                   ptr.Deref(s.Settings.HostNetwork, false),
		ServiceAccountName:            s.ServiceAccount,
		AutomountServiceAccountToken:  new(s.ServiceAccount != ""),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(30)),
		SecurityContext:               d.PodSecurityContext,
		Containers:                    []corev1.Container{container(in, s)},
		ImagePullSecrets:              pullSecrets(in, s),
	}
	if p.SecurityContext == nil {
		p.SecurityContext = &corev1.PodSecurityContext{}
	}
	if p.PriorityClassName == "" {
		p.PriorityClassName = "system-node-critical"
	}
	if p.ServiceAccountName == "" {
		p.ServiceAccountName = names.ServiceAccountNone
	}
	if s.Gate != "" {
		p.NodeSelector[s.Gate] = names.GateOpen
	}
	if s.RuntimeClass != "" {
		p.RuntimeClassName = new(s.RuntimeClass)
	}
	for _, m := range s.Mounts {
		src := &corev1.HostPathVolumeSource{Path: m.Host}
		if m.Type != "" {
			src.Type = new(m.Type)
		}
		p.Volumes = append(p.Volumes, corev1.Volume{Name: m.Name, VolumeSource: corev1.VolumeSource{HostPath: src}})
	}
	return p
}

// tolerations are the policy's after our own.
func tolerations(d v1.DaemonsetsSpec, all bool) []corev1.Toleration {
	if all {
		return []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	t := []corev1.Toleration{{Key: names.ResourceGPU, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	for _, extra := range d.Tolerations {
		if !slices.ContainsFunc(t, func(have corev1.Toleration) bool { return have.MatchToleration(&extra) }) {
			t = append(t, extra)
		}
	}
	return t
}

// pullSecrets are the installation's and the component's.
func pullSecrets(in Input, s Spec) []corev1.LocalObjectReference {
	var refs []corev1.LocalObjectReference
	all := slices.Concat(in.PullSecrets, s.Settings.ImagePullSecrets)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		refs = append(refs, corev1.LocalObjectReference{Name: name})
	}
	return refs
}

// container is the main container of s.
func container(in Input, s Spec) corev1.Container {
	c := corev1.Container{
		Name:            s.Container,
		Image:           s.Image,
		Command:         s.Command,
		ImagePullPolicy: corev1.PullPolicy(s.Settings.ImagePullPolicy),
		Args:            slices.Concat(s.Args, s.Settings.Args),
		Env:             mergeEnv(s.Env, s.Settings.Env),
		SecurityContext: security(s.Privileged),
		StartupProbe:    s.StartupProbe,
		// What a process says last is what a person sees first in the pod's status.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if c.Image == "" {
		c.Image = in.Image
	}
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = in.PullPolicy
	}
	if r := s.Settings.Resources; r != nil {
		c.Resources = corev1.ResourceRequirements{Limits: r.Limits, Requests: r.Requests}
	}
	for _, m := range s.Mounts {
		vm := corev1.VolumeMount{Name: m.Name, MountPath: m.At, ReadOnly: m.ReadOnly}
		if m.Propagation != "" {
			vm.MountPropagation = new(m.Propagation)
		}
		c.VolumeMounts = append(c.VolumeMounts, vm)
	}
	if s.Port != 0 {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: s.Port, Protocol: corev1.ProtocolTCP})
	}
	if s.HealthOn != 0 {
		c.LivenessProbe = probe("/healthz", s.HealthOn, 30, 10)
		c.ReadinessProbe = probe("/readyz", s.HealthOn, 5, 3)
	}
	return c
}

// security gives a privileged container everything and all others nothing.
func security(privileged bool) *corev1.SecurityContext {
	if privileged {
		return &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))}
	}
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsUser:                new(int64(0)),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// probe asks a node process for its health.
func probe(path string, port, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds:   5,
		PeriodSeconds:    period,
		SuccessThreshold: 1,
		FailureThreshold: failures,
	}
}

// HostMounts are the host's root and the GPU's kernel files, as every process that
// looks at the host gets them.
func HostMounts(in Input, readOnly bool) []Mount {
	return []Mount{
		{Name: "host", Host: "/", At: names.HostMount, ReadOnly: readOnly, Propagation: corev1.MountPropagationHostToContainer},
		{Name: "gpu-sysfs", Host: in.SysfsRoot, At: names.ContainerSysfsMount, ReadOnly: true},
		{Name: "gpu-procfs", Host: in.ProcfsRoot, At: names.ContainerProcfMount, ReadOnly: true},
	}
}

// HostEnv tells a process where HostMounts are.
func HostEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		NodeName(),
		Env(names.EnvHostRoot, names.HostMount),
		Env(names.EnvGPUSysfs, names.ContainerSysfsMount),
		Env(names.EnvGPUProcfs, names.ContainerProcfMount),
	}
}
