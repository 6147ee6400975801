package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gpu-operator/sim/machine"
)

// describe writes the machine description of one node.
func describe(repo, model, node string, gpus int, out string) error {
	file := filepath.Join(repo, "sim/machines", model+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		known, _ := filepath.Glob(filepath.Join(repo, "sim/machines", "*.yaml")) // the pattern is fixed
		for i, k := range known {
			known[i] = strings.TrimSuffix(filepath.Base(k), ".yaml")
		}
		return fmt.Errorf("unknown machine model %q; known are %s: %w", model, strings.Join(known, ", "), err)
	}
	m, err := machine.ParseModel(filepath.Base(file), data)
	if err != nil {
		return err
	}
	made, err := machine.Make(node, m, gpus)
	if err != nil {
		return err
	}
	text, err := machine.Format(made)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}
