// Package lab puts a lab together: programs, images, network, control plane and
// nodes, in that order, and takes it apart in the reverse. What a lab consists of
// is written to its state folder before it is made, so that whatever a killed
// command left is found again, by `up` to go on with and by `down` to remove.
package lab
