// Package image makes the lab's container images without a container engine: a
// base layer of the machine's own C library, one layer with the programs, as a
// tar that containerd imports. The same inputs give the same bytes: entries are
// sorted, owned by root and carry one fixed time, so that an image's name can
// carry the hash of its content.
package image
