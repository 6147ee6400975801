// Package fleet makes many nodes that exist in the API alone, for questions of
// scale: kwok plays their kubelets, and a reporter plays what would run on them,
// the node inspector, the toolkit, the device plugin and feature discovery. The
// operator cannot tell them from real ones.
package fleet
