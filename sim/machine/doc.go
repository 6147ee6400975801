// Package machine describes simulated GPU machines: models as YAML files, the
// machine of one node made from a model, and the record by which the simulated
// kernel driver tells its state to the driver's libraries. Values only: what
// places files and device nodes on a node is package hardware.
package machine
