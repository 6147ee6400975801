// Package containerd decides how containerd learns about NVIDIA's runtime
// handlers: from the configuration file as it lies on disk, the files that it
// imports, the daemon's version and its own dump of the effective configuration,
// it computes a drop-in file that we own and the few bytes of the root file that
// make it count. Nothing but our own handlers' keys is ever added. Pure.
//
// containerd merges an imported file into the root by plugin before version 2.1:
// the import's whole CRI table replaces the root's. A drop-in that is not to hide
// anything would then have to freeze a copy of everything else. For those
// versions our tables go, between two marker comments, to the end of the file
// whose CRI table counts.
package containerd
