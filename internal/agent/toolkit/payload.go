package toolkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gpu-operator/internal/fault"
	"gpu-operator/internal/nodeconf/toolkit"
	"gpu-operator/internal/plan"
)

// Payload is the directory of our own image that holds the binaries to install.
type Payload struct{ dir string }

// NewPayload returns the payload in dir.
func NewPayload(dir string) Payload { return Payload{dir: dir} }

// OpenPayload implements host.Payload.
func (p Payload) OpenPayload(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(p.dir, filepath.Base(name)))
}

// Manifest hashes the files of the payload, by name.
func (p Payload) Manifest() (map[string]plan.Source, error) {
	out := map[string]plan.Source{}
	for _, name := range toolkit.PayloadNames() {
		src, err := p.source(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &fault.Fault{Reason: fault.ReasonPayloadMissing, Where: filepath.Join(p.dir, name), Message: "a file to install is missing", Err: err, Remedy: "name the directory that has it (--payload)"}
		}
		if err != nil {
			return nil, fmt.Errorf("reading payload %q: %w", name, err)
		}
		out[name] = src
	}
	return out, nil
}

// source hashes one file.
func (p Payload) source(name string) (plan.Source, error) {
	f, err := p.OpenPayload(name)
	if err != nil {
		return plan.Source{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return plan.Source{}, err
	}
	return plan.Source{Name: name, Hash: hex.EncodeToString(sum.Sum(nil)), Size: size}, nil
}
