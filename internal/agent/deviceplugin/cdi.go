package deviceplugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"gpu-operator/internal/names"
)

// readCDI returns the names of the devices that the specs in dirs list under the
// kind nvidia.com/gpu. What it could read it returns beside an error.
func readCDI(dirs []string) (map[string]bool, error) {
	named := map[string]bool{}
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("listing CDI specs: %w", err))
		}
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case ".yaml", ".json":
				if err := readSpec(filepath.Join(dir, e.Name()), named); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return named, errors.Join(errs...)
}

// readSpec adds the device names of one spec.
func readSpec(path string, named map[string]bool) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // replaced since it was listed
	}
	if err != nil {
		return fmt.Errorf("reading CDI spec: %w", err)
	}
	var spec struct {
		Kind    string `json:"kind"`
		Devices []struct {
			Name string `json:"name"`
		} `json:"devices"`
	}
	if err := yaml.Unmarshal(data, &spec); err != nil {
		return fmt.Errorf("decoding CDI spec %q: %w", path, err)
	}
	if spec.Kind != names.CDIKind {
		return nil
	}
	for _, d := range spec.Devices {
		named[d.Name] = true
	}
	return nil
}
