// Package smi is the nvidia-smi of the simulated driver: the list, the table and
// the queries that people and scripts use, answered through NVML like the real one.
package smi
