// Package toolkit is the node agent that makes a container runtime know NVIDIA's
// handlers: it gathers what is on the host, has package nodeconf decide, applies
// the difference, writes CDI specs, restarts the runtime only when the running
// daemon does not know the handlers, proves the result over CRI and leaves
// evidence. It holds no API credentials. It never takes anything back because it
// is stopped; that is an order of its own.
package toolkit
