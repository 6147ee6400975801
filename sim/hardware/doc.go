// Package hardware plays a machine's hardware and kernel on a lab node: it shows
// a PCI tree at boot, "loads" the nvidia modules (device nodes, /proc and /sys
// files, the state record of the driver's libraries) and takes them away again.
// Everything lies below one root directory, so that it can be tried anywhere.
package hardware
