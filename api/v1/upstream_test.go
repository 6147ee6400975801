package v1

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// crdFile is the generated definition.
const crdFile = "../../deploy/crds/nvidia.com_clusterpolicies.yaml"

// readSchema returns the schema of the only version in the generated definition.
func readSchema(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("the definition has %d versions, want 1", len(crd.Spec.Versions))
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// lines says of every field below s, in the notation of the list of upstream's
// fields, what its path, type, default, enum, pattern and minimum are. Objects are
// said at the first two levels only.
func lines(path string, s *apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case s.XIntOrString:
		return []string{path + ": int|string" + facets(s)}
	case s.Type == "array":
		return lines(path+"[]", s.Items.Schema)
	case s.Type == "object" && len(s.Properties) == 0 && s.AdditionalProperties != nil:
		return []string{path + ": map" + facets(s)}
	case s.Type != "object":
		return []string{path + ": " + s.Type + facets(s)}
	}
	var out []string
	if strings.Count(path, ".") <= 1 && !strings.HasSuffix(path, "[]") {
		out = append(out, path+": object"+facets(s))
	}
	for name, p := range s.Properties {
		out = append(out, lines(path+"."+name, &p)...)
	}
	return out
}

// facets renders what bounds a field.
func facets(s *apiextensionsv1.JSONSchemaProps) string {
	var out []string
	if len(s.Enum) > 0 {
		var values []string
		for _, e := range s.Enum {
			values = append(values, strings.Trim(string(e.Raw), `"`))
		}
		out = append(out, "enum "+strings.Join(values, "|"))
	}
	if s.Default != nil {
		d := strings.Trim(string(s.Default.Raw), `"`)
		switch d {
		case "true":
			d = "True"
		case "false":
			d = "False"
		}
		out = append(out, "default "+d)
	}
	if s.Pattern != "" {
		out = append(out, "pattern "+s.Pattern)
	}
	if s.Minimum != nil {
		out = append(out, fmt.Sprintf("minimum %v", *s.Minimum))
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// TestUpstreamFieldTree: every field of upstream's ClusterPolicy is there with its
// type, default, enum, pattern and minimum, and what is more is known.
func TestUpstreamFieldTree(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream-fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	upstream := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(upstream) < 400 {
		t.Fatalf("the list has %d fields: it is cut", len(upstream))
	}
	schema := readSchema(t)
	spec, status := schema.Properties["spec"], schema.Properties["status"]
	have := append(lines("spec", &spec), lines("status", &status)...)
	for _, want := range upstream {
		if !slices.Contains(have, want) {
			path, _, _ := strings.Cut(want, ": ")
			i := slices.IndexFunc(have, func(l string) bool { return strings.HasPrefix(l, path+": ") })
			got := "nothing"
			if i >= 0 {
				got = have[i]
			}
			t.Errorf("upstream has\n  %s\nours\n  %s", want, got)
		}
	}
	// What we add stands in status only.
	added := []string{"status.observedGeneration", "status.gpuNodes", "status.readyNodes", "status.fingerprintCount", "status.steps", "status.fingerprints", "status.blockedNodes"}
	for _, l := range have {
		path, _, _ := strings.Cut(l, ": ")
		known := slices.Contains(upstream, l) || slices.ContainsFunc(added, func(a string) bool { return strings.HasPrefix(path, a) })
		if !known {
			t.Errorf("field %s is neither upstream's nor a known addition", l)
		}
	}
}

// undescribed returns the paths below s without a description.
func undescribed(path string, s *apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	if s.Type == "array" && s.Items != nil && s.Items.Schema != nil {
		return undescribed(path+"[]", s.Items.Schema)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			out = append(out, path+"."+name)
		}
		out = append(out, undescribed(path+"."+name, &p)...)
	}
	return out
}

// TestEveryFieldIsDescribed: `kubectl explain` has an answer for each field.
func TestEveryFieldIsDescribed(t *testing.T) {
	spec := readSchema(t).Properties["spec"]
	if bad := undescribed("spec", &spec); len(bad) > 0 {
		t.Errorf("%d fields have no description: %v", len(bad), bad)
	}
}
