package controller

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// forNode lets a node's events through only when something changed that gates
// depend on: heartbeats cause no work.
func forNode() builder.ForOption {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*corev1.Node)
		is, ok2 := e.ObjectNew.(*corev1.Node)
		if !ok1 || !ok2 {
			return true
		}
		return was.UID != is.UID || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations) ||
			was.Status.NodeInfo.BootID != is.Status.NodeInfo.BootID ||
			!equality.Semantic.DeepEqual(was.Status.RuntimeHandlers, is.Status.RuntimeHandlers) ||
			!equality.Semantic.DeepEqual(was.Status.Allocatable, is.Status.Allocatable)
	}})
}

// forGPUNode lets everything through but our own writes of stage, gates and conditions.
func forGPUNode() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*v1alpha1.GPUNode)
		is, ok2 := e.ObjectNew.(*v1alpha1.GPUNode)
		if !ok1 || !ok2 {
			return true
		}
		a, b := was.Status.DeepCopy(), is.Status.DeepCopy()
		for _, s := range []*v1alpha1.GPUNodeStatus{a, b} {
			s.Stage, s.Gates, s.Conditions = "", nil, nil
		}
		return was.UID != is.UID || !equality.Semantic.DeepEqual(a, b)
	}})
}

// forPolicy lets specs, deletions and finalizers through, not our own status.
func forPolicy() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}})
}

// forOwned lets through what somebody else did to an object of ours, and pods that
// came or went on its nodes.
func forOwned() builder.WatchesOption {
	mine := func(o client.Object) bool { return o.GetLabels()[names.LabelManagedBy] == names.ManagedBy }
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if e.ObjectOld.GetGeneration() == 0 {
				return mine(e.ObjectOld) && e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
			}
			return mine(e.ObjectOld) && e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return mine(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return true },
	})
}

// forClass lets through what happened to any RuntimeClass: one that is somebody
// else's is respected as long as it is there.
func forClass() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return true },
	})
}
