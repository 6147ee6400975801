// Package inspector is the node agent that says what a node is. It reads the host
// through read-only roots, derives this node's part of the GPUNode status, and
// writes it when, and only when, it changed. It needs no privilege and changes
// nothing on the host.
//
// Scanner looks, StatusOf derives (pure), Agent loops: a change in one of the few
// directories that matter, or the passing of the re-scan period, makes it look
// again; an unchanged host costs no API request.
package inspector
