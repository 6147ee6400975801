// Package discovery is the agent that derives node labels from the GPUs and writes
// them into the status of its own node's GPUNode, and only when they changed. While
// the driver does not answer, or the cluster does not, what was written stands: a
// label that is lost for a minute unschedules work.
package discovery
