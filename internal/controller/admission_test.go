package controller

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "gpu-operator/api/v1"
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/names"
)

// podOn makes a pod of a service account on a node, and returns a client with the
// token that the pod would have.
func (a *apiServer) podOn(t *testing.T, node, account string) client.Client {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: account + "-" + node, Namespace: names.DefaultNamespace},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "main", Image: "x"}},
		},
	}
	if err := a.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	token, err := set.CoreV1().ServiceAccounts(names.DefaultNamespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(a.config)
	cfg.BearerToken = token.Status.Token
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// report writes a GPUNode's status as the node inspector does.
func report(ctx context.Context, c client.Client, node string, status map[string]any) error {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("GPUNode"))
	u.SetName(node)
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(names.FieldManagerInspector), client.ForceOwnership)
}

// TestNodeProcessesWriteTheirOwnNodeOnly: a node whose inspector was taken over
// can lie about itself and about nobody else.
func TestNodeProcessesWriteTheirOwnNodeOnly(t *testing.T) {
	a := newAPIServer(t)
	for _, name := range []string{"a", "b"} {
		if err := a.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		if err := a.Create(t.Context(), &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, account := range []string{names.ServiceAccountInspector, names.ServiceAccountDiscovery} {
		c := a.podOn(t, "a", account)
		// The policy is compiled shortly after it was made: until then it denies all.
		a.eventually(t, account+" writes its own GPUNode", func(ctx context.Context) string {
			if err := report(ctx, c, "a", map[string]any{"pciScanned": true}); err != nil {
				return err.Error()
			}
			return ""
		})
		a.eventually(t, account+" may not write another's", func(ctx context.Context) string {
			err := report(ctx, c, "b", map[string]any{"pciScanned": true})
			if err == nil {
				return "it wrote GPUNode b"
			}
			if !strings.Contains(err.Error(), "may not write GPUNode b") {
				return err.Error()
			}
			return ""
		})
		if err := c.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`))); err == nil {
			t.Errorf("%s labelled its Node", account)
		}
		if err := c.List(t.Context(), &corev1.SecretList{}); err == nil {
			t.Errorf("%s listed Secrets", account)
		}
	}
}

func TestManagementRuntimeClassIsReserved(t *testing.T) {
	a := newAPIServer(t)
	for _, name := range []string{names.RuntimeManagement, names.RuntimeNVIDIA} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name}
		if err := a.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(namespace, class string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: namespace},
			Spec: corev1.PodSpec{
				RuntimeClassName: new(class), Containers: []corev1.Container{{Name: "main", Image: "x"}},
			},
		}
	}
	a.eventually(t, "a pod elsewhere is refused", func(ctx context.Context) string {
		err := a.Create(ctx, pod("default", names.RuntimeManagement))
		if err == nil {
			return "it was admitted"
		}
		if !strings.Contains(err.Error(), "is reserved for namespace") {
			return err.Error()
		}
		return ""
	})
	if err := a.Create(t.Context(), pod("default", names.RuntimeNVIDIA)); err != nil {
		t.Errorf("an ordinary GPU pod is refused: %v", err)
	}
	if err := a.Create(t.Context(), pod(names.DefaultNamespace, names.RuntimeManagement)); err != nil {
		t.Errorf("an operand is refused: %v", err)
	}
	a.eventually(t, "another class for the same handler is refused", func(ctx context.Context) string {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "back-door-"}, Handler: names.RuntimeManagement}
		if err := a.Create(ctx, class); err == nil {
			return "it was admitted"
		}
		return ""
	})
}

// TestPolicyValidation sends bad policies and looks for the field and the remedy
// in the answer.
func TestPolicyValidation(t *testing.T) {
	a := newAPIServer(t)
	for name, tc := range map[string]struct {
		spec string
		want string // part of the refusal; "" is accepted
	}{
		"empty":                     {"{}", ""},
		"the peer's usual settings": {"{driver: {enabled: true, repository: nvcr.io/nvidia, image: driver, version: '550.163.01'}, toolkit: {enabled: true}, mig: {strategy: single}, cdi: {enabled: true}, daemonsets: {updateStrategy: RollingUpdate, rollingUpdate: {maxUnavailable: '1'}}}", ""},
		"repository without image":  {"{toolkit: {repository: nvcr.io/nvidia}}", "repository is set without image"},
		"bad digest":                {"{driver: {image: driver, version: 'sha256:123'}}", "64 hexadecimal digits"},
		"unknown MIG strategy":      {"{mig: {strategy: some}}", "spec.mig.strategy"},
		"negative upgrades":         {"{driver: {upgradePolicy: {maxParallelUpgrades: -1}}}", "maxParallelUpgrades"},
		"bad rolling update":        {"{daemonsets: {rollingUpdate: {maxUnavailable: many}}}", "maxUnavailable is a number of nodes or a percentage"},
		"relative install dir":      {"{toolkit: {installDir: opt}}", "installDir is an absolute path"},
		"unknown update strategy":   {"{daemonsets: {updateStrategy: Never}}", "updateStrategy"},
		"wrong type":                {"{driver: {enabled: 'perhaps'}}", "spec.driver.enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			u.Object["spec"] = spec
			u.SetGroupVersionKind(v1.GroupVersion().WithKind("ClusterPolicy"))
			u.SetGenerateName("p-")
			err := a.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && err == nil:
				t.Error("accepted")
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("the refusal does not say %q: %v", tc.want, err)
			}
		})
	}
}
