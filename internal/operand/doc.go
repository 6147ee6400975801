// Package operand says what the objects of the operator look like: one folder an
// operand with typed Go and a golden beside it, and here what they all share. An
// object is a pure function of the policy and the installation's settings; what
// applies to every pod (labels, tolerations, pull secrets, resources, environment)
// is applied here, once, to every container.
package operand
