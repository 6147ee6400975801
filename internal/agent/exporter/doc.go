// Package exporter is the agent that exports the GPUs' readings as metrics, under
// the names and labels that dashboards know. A loop reads the GPUs and asks the
// kubelet which container has which; a scrape prints what was read last, at once,
// whatever the driver does meanwhile. A GPU that does not answer loses its readings
// and keeps its gpu_up series, at 0.
package exporter
