// Package daemon talks to a node's running container runtime and to the systemd
// that runs it: which process serves the CRI socket and since when, what it knows
// (version, handlers, sandboxes, containers), how its configuration reads to it,
// and how its unit is restarted. Every path is seen through the host's root.
package daemon
