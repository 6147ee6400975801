// Package controller wires the operator: watches, caches and two reconcilers. One
// is keyed by node (gates, labels, the GPUNode), one by policy (objects, status,
// removal). They read once, ask the pure packages what follows, and write through
// package cluster.
package controller
