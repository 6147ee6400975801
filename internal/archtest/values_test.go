package archtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The chart's values are the installation's own settings beside the spec of a
// ClusterPolicy. Helm checks them against a schema made from both, so that a
// misspelt field is an error at install and not a setting that has no effect.
const (
	policyCRD    = "deploy/crds/nvidia.com_clusterpolicies.yaml"
	valuesFile   = "deploy/chart/gpu-operator/values.yaml"
	valuesSchema = "deploy/chart/gpu-operator/values.schema.json"
)

// settings is the schema of the values that are not part of the spec; the helper
// gpu-operator.spec of the chart leaves the same ones out.
const settings = `
image: &image
  type: object
  additionalProperties: false
  properties:
    repository: {type: string, minLength: 1}
    tag: {type: string, minLength: 1}
    pullPolicy: {enum: [Always, IfNotPresent, Never]}
nodeImage: *image
imagePullSecrets: {type: array, items: {type: string, minLength: 1}}
replicas: {type: integer, minimum: 1}
resources: {type: object}
hostRoots:
  type: object
  additionalProperties: false
  properties:
    sysfs: {type: string, pattern: ^/}
    procfs: {type: string, pattern: ^/}
createPolicy: {type: boolean}
global: {type: object}
`

// kept are the keywords of a CRD's schema that JSON schema has too. Defaults and
// descriptions stay in the CRD; rules are the API server's.
var kept = []string{"type", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "required", "anyOf"}

// TestValuesSchema: the schema of the chart's values is what the CRD says, and the
// values that ship keep to it.
func TestValuesSchema(t *testing.T) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					Root map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	read(t, policyCRD, &crd)
	spec, ok := crd.Spec.Versions[0].Schema.Root["properties"].(map[string]any)["spec"].(map[string]any)
	if !ok {
		t.Fatalf("%s has no schema of spec", policyCRD)
	}
	schema := jsonSchema(spec)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	properties, ok := schema["properties"].(map[string]any)
	if !ok || len(properties) < 20 {
		t.Fatalf("the spec has %d fields: the test looks in the wrong place", len(properties))
	}
	var own map[string]any
	if err := yaml.Unmarshal([]byte(settings), &own); err != nil {
		t.Fatal(err)
	}
	for key := range own {
		if _, twice := properties[key]; twice {
			t.Errorf("%q is a setting of the chart and a field of the spec", key)
		}
	}
	maps.Copy(properties, own)
	text, err := json.MarshalIndent(schema, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	file := path.Join(rootDir, valuesSchema)
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(text) {
		t.Errorf("%s is not what the CRD says (%v): make generate", valuesSchema, err)
	}
	var values map[string]any
	read(t, valuesFile, &values)
	for key := range values {
		if _, known := properties[key]; !known {
			t.Errorf("%s has %q, which the schema lacks", valuesFile, key)
		}
	}
	for key := range own {
		if _, given := values[key]; !given && key != "global" {
			t.Errorf("%s lacks %q: people find settings there", valuesFile, key)
		}
	}
}

// jsonSchema translates a schema of a CRD: objects with known fields take no others.
func jsonSchema(in map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range kept {
		if v, has := in[k]; has {
			out[k] = v
		}
	}
	if f, ok := in["properties"].(map[string]any); ok {
		fields := map[string]any{}
		for name, s := range f {
			if s, ok := s.(map[string]any); ok {
				fields[name] = jsonSchema(s)
			}
		}
		out["properties"], out["additionalProperties"] = fields, false
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if s, ok := in[k].(map[string]any); ok {
			out[k] = jsonSchema(s)
		}
	}
	return out
}

// TestJSONSchema: what the translation keeps, adds and drops.
func TestJSONSchema(t *testing.T) {
	var in, want map[string]any
	for text, to := range map[string]*map[string]any{
		`{type: object, description: d, required: [a], properties: {a: {type: integer, minimum: 1, default: 3, format: int32},
		  b: {type: object, additionalProperties: {type: string}}, c: {type: array, items: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}}}}`: &in,
		`{type: object, required: [a], additionalProperties: false, properties: {a: {type: integer, minimum: 1},
		  b: {type: object, additionalProperties: {type: string}}, c: {type: array, items: {anyOf: [{type: integer}, {type: string}]}}}}`: &want,
	} {
		if err := yaml.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, jsonSchema(in)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !slices.Contains(kept, "enum") {
		t.Error("enumerations are dropped")
	}
}

// read decodes a YAML file of the tree.
func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(path.Join(rootDir, name))
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("reading %s: %w", name, err))
	}
}
