// Package toolkit decides what the container toolkit puts on a host: NVIDIA's
// binaries with our launcher before them, and one configuration for each of the
// two runtime handlers. The handler for workloads takes devices from CDI requests
// only; the management handler also from NVIDIA_VISIBLE_DEVICES, and admission
// keeps it for the operator's own namespace. Pure.
package toolkit
