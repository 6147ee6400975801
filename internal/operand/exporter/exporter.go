// Package exporter is the DaemonSet and the Service of the metrics exporter,
// under the names that dashboards and scrape rules know.
package exporter

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
	"gpu-operator/internal/operand"
)

// Port of the exporter, the same as upstream's.
const Port = 9400

// Objects of the exporter.
func Objects(in operand.Input) []client.Object {
	e := in.Policy.Spec.DCGMExporter
	ds := operand.DaemonSet(in, operand.Spec{
		Name:      names.DaemonSetExporter,
		Container: "nvidia-dcgm-exporter",
		Component: "nvidia-dcgm-exporter",
		Gate:      names.GateExporter,
		Args:      []string{"exporter"},
		Env: []corev1.EnvVar{
			operand.NodeName(),
			operand.Env(names.EnvVisibleDevices, "all"),
			operand.Env("DCGM_EXPORTER_LISTEN", ":9400"),
			operand.Env("DCGM_EXPORTER_KUBERNETES", "true"),
		},
		Mounts: []operand.Mount{
			{Name: "pod-resources", Host: path.Join(in.KubeletRoot(), "pod-resources"), At: names.KubeletPodResources, ReadOnly: true},
		},
		RuntimeClass: names.RuntimeManagement,
		Port:         Port,
		HealthOn:     Port,
		Settings:     e.ComponentSpec,
	})
	for k, v := range e.Annotations {
		if ds.Spec.Template.Annotations == nil {
			ds.Spec.Template.Annotations = map[string]string{}
		}
		ds.Spec.Template.Annotations[k] = v
	}
	return []client.Object{ds, service(in)}
}

// service reaches the exporter of the client's own node.
func service(in operand.Input) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: operand.Meta(in, names.DaemonSetExporter, "nvidia-dcgm-exporter"),
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			Selector:              map[string]string{names.LabelApp: names.DaemonSetExporter},
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
			Ports: []corev1.ServicePort{{
				Name: "gpu-metrics", Port: Port, TargetPort: intstr.FromInt32(Port), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
	if c := in.Policy.Spec.DCGMExporter.ServiceSpec; c != nil {
		if c.Type != "" {
			s.Spec.Type = c.Type
		}
		if c.InternalTrafficPolicy != nil {
			s.Spec.InternalTrafficPolicy = c.InternalTrafficPolicy
		}
	}
	return s
}
