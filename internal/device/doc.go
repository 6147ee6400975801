// Package device decides what a node's GPUs are to the kubelet: which resources
// they make up, what a container that was given some of them gets, which of the free
// ones fit best together, and which are fit for work. Pure: the inventory, the errors
// that the driver reported and the time are handed in.
package device
