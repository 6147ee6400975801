// Package v1 holds ClusterPolicy (nvidia.com/v1): the one object from which every
// GPU node becomes ready. The field tree is the one that the peer project's
// manifests use, so that a manifest written for it applies unchanged; a field that
// is not implemented is named in the condition UnsupportedFields when it is set to
// something that would matter.
//
// +kubebuilder:object:generate=true
// +groupName=nvidia.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of the types of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "nvidia.com", Version: "v1"}
}

// AddToScheme registers the types of this package in s.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &ClusterPolicy{}, &ClusterPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
