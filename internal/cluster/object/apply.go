// Package object is the only writer of the operator's own objects: it applies
// what is wanted by server-side apply and writes nothing when nothing changed.
package object

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/names"
)

// Applier applies objects and remembers what it applied: an object is written
// again when it is wanted differently or when somebody changed it since.
type Applier struct {
	client client.Client

	mu   sync.Mutex
	done map[string]applied
}

// applied is an object as it was after it was written.
type applied struct {
	hash    [sha256.Size]byte
	version string
}

// NewApplier returns an Applier that writes with c and reads from c's cache.
func NewApplier(c client.Client) *Applier {
	return &Applier{client: c, done: map[string]applied{}}
}

// version is what changes when somebody edits an object: its generation where it
// has one (a status is no edit), else its resource version.
func version(o client.Object) string {
	if g := o.GetGeneration(); g != 0 {
		return fmt.Sprintf("%s generation %d", o.GetUID(), g)
	}
	return fmt.Sprintf("%s version %s", o.GetUID(), o.GetResourceVersion())
}

// Apply makes the object as wanted and reports whether it wrote.
func (a *Applier) Apply(ctx context.Context, want client.Object) (bool, error) {
	data, err := json.Marshal(want)
	if err != nil {
		return false, fmt.Errorf("encoding %s: %w", name(want), err)
	}
	hash, key := sha256.Sum256(data), name(want)
	typed, ok := want.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("applying %s: not an object", key)
	}
	err = a.client.Get(ctx, client.ObjectKeyFromObject(want), typed)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading %s: %w", key, err)
	}
	a.mu.Lock()
	last, known := a.done[key]
	a.mu.Unlock()
	if err == nil && known && last.hash == hash && last.version == version(typed) {
		return false, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return false, fmt.Errorf("encoding %s: %w", key, err)
	}
	delete(content, "status")
	live := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(live.Object, "metadata", "creationTimestamp")
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(live), client.FieldOwner(names.FieldManagerOperator), client.ForceOwnership)
	if err != nil {
		return false, fmt.Errorf("applying %s: %w", key, err)
	}
	a.mu.Lock()
	a.done[key] = applied{hash: hash, version: version(live)}
	a.mu.Unlock()
	return true, nil
}

// Delete removes an object; one that is gone is no error. It reports whether the
// object was there.
func (a *Applier) Delete(ctx context.Context, o client.Object) (bool, error) {
	a.mu.Lock()
	delete(a.done, name(o))
	a.mu.Unlock()
	live, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("deleting %s: not an object", name(o))
	}
	err := a.client.Get(ctx, client.ObjectKeyFromObject(o), live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", name(o), err)
	}
	if live.GetLabels()[names.LabelManagedBy] != names.ManagedBy {
		return false, nil // somebody else's object of the same name
	}
	if err := a.client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())}); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("deleting %s: %w", name(o), err)
	}
	return true, nil
}

// name is an object's kind and name for messages and as a key.
func name(o client.Object) string {
	return fmt.Sprintf("%s %s/%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName())
}
