package operand

import (
	"sort"

	corev1 "k8s.io/api/core/v1"

	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/names"
)

// Settings are of the installation, not of the policy.
type Settings struct {
	// Namespace of the operator and its operands.
	Namespace string
	// Image is the built-in image of all node processes.
	Image string
	// PullPolicy and PullSecrets of the built-in image.
	PullPolicy  corev1.PullPolicy
	PullSecrets []string
	// SysfsRoot and ProcfsRoot are the host directories in which the GPU's kernel
	// files are looked for; /sys and /proc but on simulated hardware.
	SysfsRoot, ProcfsRoot string
}

// Input is everything that an operand's objects depend on.
type Input struct {
	Settings
	Policy *v1.ClusterPolicy
	// Undo renders the toolkit so that it undoes its host changes.
	Undo bool
}

// KubeletRoot is the kubelet's root directory on the host.
func (in Input) KubeletRoot() string {
	if d := in.Policy.Spec.HostPaths.KubeletRootDir; d != "" {
		return d
	}
	return names.KubeletRoot
}

// RuntimeClass is the name and the handler of the RuntimeClass for GPU Pods.
func (in Input) RuntimeClass() string {
	if c := in.Policy.Spec.Operator.RuntimeClass; c != "" {
		return c
	}
	return names.RuntimeNVIDIA
}

// MIGStrategy is how MIG devices become resources; none when the policy is silent.
func (in Input) MIGStrategy() string {
	if s := in.Policy.Spec.MIG.Strategy; s != "" {
		return s
	}
	return "none"
}

// ImageRef is the reference of an image of the policy; "" when the built-in one
// is meant.
func ImageRef(i v1.ImageSpec) string {
	if i.Image == "" {
		return ""
	}
	ref := i.Image
	if i.Repository != "" {
		ref = i.Repository + "/" + ref
	}
	switch {
	case i.Version == "":
		return ref
	case len(i.Version) > 7 && i.Version[:7] == "sha256:":
		return ref + "@" + i.Version
	}
	return ref + ":" + i.Version
}

// mergeEnv lays the policy's environment over the operand's own and returns it in
// order of name: the same settings give the same bytes.
func mergeEnv(own []corev1.EnvVar, over []v1.EnvVar) []corev1.EnvVar {
	byName := map[string]corev1.EnvVar{}
	for _, e := range own {
		byName[e.Name] = e
	}
	for _, e := range over {
		byName[e.Name] = corev1.EnvVar{Name: e.Name, Value: e.Value}
	}
	merged := make([]corev1.EnvVar, 0, len(byName))
	for _, e := range byName {
		merged = append(merged, e)
	}
	sort.Slice(merged, func(i, j int) bool { return merged[i].Name < merged[j].Name })
	return merged
}

// Env is a variable with a value.
func Env(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

// NodeName is the variable with the name of the pod's node.
func NodeName() corev1.EnvVar {
	return corev1.EnvVar{Name: names.EnvNodeName, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"},
	}}
}
