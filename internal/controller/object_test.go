package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gpu-operator/internal/cluster/object"
	"gpu-operator/internal/names"
)

// TestObjectsAreWrittenOnce: what is as wanted is not written again, what somebody
// else changed is put right, and nobody else's object is deleted.
func TestObjectsAreWrittenOnce(t *testing.T) {
	a := newAPIServer(t)
	ctx := t.Context()
	want := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: "default", Labels: map[string]string{names.LabelManagedBy: names.ManagedBy}},
			Data:       map[string]string{"key": value},
		}
	}
	objects := object.NewApplier(a)
	for _, step := range []struct {
		name  string
		do    func() error
		value string
		wrote bool
	}{
		{"new", nil, "1", true},
		{"as it is", nil, "1", false},
		{"wanted otherwise", nil, "2", true},
		{"as it is then", nil, "2", false},
		{"changed by somebody", func() error {
			return a.Patch(ctx, want(""), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"key":"theirs"}}`)))
		}, "2", true},
		{"deleted by somebody", func() error { return a.Delete(ctx, want("")) }, "2", true},
	} {
		if step.do != nil {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
		}
		wrote, err := objects.Apply(ctx, want(step.value))
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var live corev1.ConfigMap
		if err := a.Get(ctx, client.ObjectKeyFromObject(want("")), &live); err != nil {
			t.Fatal(err)
		}
		if wrote != step.wrote || live.Data["key"] != step.value {
			t.Errorf("%s: wrote %v (want %v), the object has %q (want %q)", step.name, wrote, step.wrote, live.Data["key"], step.value)
		}
	}
	theirs := want("x")
	theirs.Name, theirs.Labels = "theirs", nil
	if err := a.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	for name, gone := range map[string]bool{"theirs": false, "ours": true, "absent": false} {
		o := want("")
		o.Name = name
		deleted, err := objects.Delete(ctx, o)
		if err != nil || deleted != gone {
			t.Errorf("deleting %q: %v, %v; want %v", name, deleted, err, gone)
		}
	}
	if err := a.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Errorf("somebody else's object: %v", err)
	}
	if err := a.Get(ctx, client.ObjectKeyFromObject(want("")), want("")); !apierrors.IsNotFound(err) {
		t.Errorf("our object after its deletion: %v", err)
	}
}
