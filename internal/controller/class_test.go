package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// TestRuntimeClassesOfOthers: one that somebody made stays theirs, also at the
// removal; one that leads to another handler is said; one that they delete is made.
func TestRuntimeClassesOfOthers(t *testing.T) {
	a := newAPIServer(t)
	for name, handler := range map[string]string{"nvidia": "nvidia", "nvidia-cdi": "their-own"} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"by": "somebody"}}, Handler: handler}
		if err := a.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	a.operator(t)
	policy := &v1.ClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster-policy"}}
	if err := a.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.degraded(t, metav1.ConditionTrue, `RuntimeClass "nvidia-cdi" is somebody else's and names the handler "their-own"`)
	a.classes(t, "nvidia theirs, nvidia-cdi theirs, nvidia-legacy ours, nvidia-management ours")

	if err := a.Delete(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "nvidia-cdi"}}); err != nil {
		t.Fatal(err)
	}
	a.degraded(t, metav1.ConditionFalse, "")
	a.classes(t, "nvidia theirs, nvidia-cdi ours, nvidia-legacy ours, nvidia-management ours")

	if err := a.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.classes(t, "nvidia theirs, nvidia-cdi absent, nvidia-legacy absent, nvidia-management absent")
}

// degraded waits until the policy's condition is so and its message holds a text.
func (a *apiServer) degraded(t *testing.T, status metav1.ConditionStatus, text string) {
	t.Helper()
	a.eventually(t, "Degraded is "+string(status), func(ctx context.Context) string {
		var p v1.ClusterPolicy
		if err := a.Get(ctx, client.ObjectKey{Name: "cluster-policy"}, &p); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if c == nil || c.Status != status || !strings.Contains(c.Message, text) {
			return fmt.Sprintf("condition %+v", c)
		}
		return ""
	})
}

// classes waits until the RuntimeClasses are whose they should be.
func (a *apiServer) classes(t *testing.T, want string) {
	t.Helper()
	a.eventually(t, want, func(ctx context.Context) string {
		var got []string
		for _, name := range append(names.WorkloadHandlers("nvidia"), names.RuntimeManagement) {
			var c nodev1.RuntimeClass
			whose := "ours"
			err := a.Get(ctx, client.ObjectKey{Name: name}, &c)
			switch {
			case apierrors.IsNotFound(err):
				whose = "absent"
			case err != nil:
				return err.Error()
			case c.Labels[names.LabelManagedBy] != names.ManagedBy:
				whose = "theirs"
			}
			got = append(got, name+" "+whose)
		}
		if s := strings.Join(got, ", "); s != want {
			return s
		}
		return ""
	})
}
