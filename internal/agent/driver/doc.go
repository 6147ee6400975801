// Package driver is the node agent of the driver step. It finds the driver that a
// node already has, in the OS image or brought by a container, and adopts it: no
// file is written but evidence, nothing is loaded or unloaded. A node without a
// driver gets a reason and a remedy.
package driver
