// Package v1alpha1 holds GPUNode (nvidia.com/v1alpha1): what one node is, what
// was changed on it, and why it is not ready. It is the only channel by which
// what is known on a node reaches the cluster.
//
// Three writers share a GPUNode's status, each by server-side apply with its own
// field manager and its own fields: the node inspector (facts, driver, runtime,
// toolkit, cdi, gpus, hostChanges, fingerprint, findings of its source), the
// feature discovery (discovery) and the operator (stage, gates, conditions).
//
// +kubebuilder:object:generate=true
// +groupName=nvidia.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of the types of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "nvidia.com", Version: "v1alpha1"}
}

// AddToScheme registers the types of this package in s.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &GPUNode{}, &GPUNodeList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
