// Package zdeps only pins modules until their first use.
package zdeps

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/go-containerregistry/pkg/v1/tarball"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sys/unix"
	_ "gpu-operator/api/v1alpha1"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/controller-runtime/pkg/client"
	_ "sigs.k8s.io/yaml"
)
