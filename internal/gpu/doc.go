// Package gpu reads GPUs through NVML into plain values. Every question about one
// GPU has a deadline of its own: a GPU that hangs or fell off the bus is reported
// as such and never keeps the others waiting.
package gpu
