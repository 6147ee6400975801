// Package facts holds values about a node and how they are read from text:
// evidence files, os-release, module versions, PCI entries. Values and parsing
// only; reading files is for package host.
package facts

import (
	"encoding/json"
	"fmt"

	"gpu-operator/api/v1alpha1"
)

// EvidenceVersion is the version of the evidence file format.
const EvidenceVersion = 1

// evidenceFile is the file format: the step's evidence with a format version.
type evidenceFile struct {
	Version int `json:"version"`
	v1alpha1.StepEvidence
}

// FormatEvidence renders e as the content of an evidence file (JSON, one final newline).
func FormatEvidence(e v1alpha1.StepEvidence) ([]byte, error) {
	data, err := json.MarshalIndent(evidenceFile{Version: EvidenceVersion, StepEvidence: e}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding evidence of step %q: %w", e.Step, err)
	}
	return append(data, '\n'), nil
}

// ParseEvidence reads the content of an evidence file. It fails for text that is
// not JSON, for another format version and for evidence without a step or boot id.
func ParseEvidence(data []byte) (v1alpha1.StepEvidence, error) {
	var f evidenceFile
	if err := json.Unmarshal(data, &f); err != nil {
		return v1alpha1.StepEvidence{}, fmt.Errorf("decoding evidence: %w", err)
	}
	if f.Version != EvidenceVersion {
		return v1alpha1.StepEvidence{}, fmt.Errorf("evidence has format version %d, want %d", f.Version, EvidenceVersion)
	}
	if f.Step == "" || f.BootID == "" {
		return v1alpha1.StepEvidence{}, fmt.Errorf("evidence lacks step or bootID: step %q, bootID %q", f.Step, f.BootID)
	}
	return f.StepEvidence, nil
}
