// Package node is the command line of gpu-node: one file a subcommand, each with
// one exported constructor, and the table of them in root.go. Flags and printing
// only; the work is in package agent.
package node
