package toolkit

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// policy is the part of a ClusterPolicy manifest that decides about a host.
type policy struct {
	Kind string `json:"kind"`
	Spec struct {
		Operator struct {
			RuntimeClass   string `json:"runtimeClass"`
			DefaultRuntime string `json:"defaultRuntime"`
		} `json:"operator"`
		Toolkit struct {
			Enabled    *bool  `json:"enabled"`
			InstallDir string `json:"installDir"`
			Env        []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"env"`
		} `json:"toolkit"`
	} `json:"spec"`
}

// FromPolicy reads options from a ClusterPolicy manifest (YAML or JSON), as the
// operator hands them to the DaemonSet: spec.toolkit.installDir, spec.toolkit.env
// and spec.operator.runtimeClass. enabled is false when the policy switches the
// toolkit off.
func FromPolicy(data []byte) (o Options, enabled bool, err error) {
	var p policy
	if err := yaml.Unmarshal(data, &p); err != nil {
		return o, false, fmt.Errorf("reading policy: %w", err)
	}
	if p.Kind != "ClusterPolicy" {
		return o, false, fmt.Errorf("reading policy: kind is %q, want \"ClusterPolicy\"", p.Kind)
	}
	env := map[string]string{"ROOT": p.Spec.Toolkit.InstallDir, "CONTAINERD_RUNTIME_CLASS": p.Spec.Operator.RuntimeClass}
	for _, e := range p.Spec.Toolkit.Env {
		env[e.Name] = e.Value
	}
	enabled = p.Spec.Toolkit.Enabled == nil || *p.Spec.Toolkit.Enabled
	o, err = FromEnv(func(k string) string { return env[k] })
	if err != nil {
		return o, enabled, fmt.Errorf("reading policy: spec.toolkit: %w", err)
	}
	return o, enabled, nil
}
