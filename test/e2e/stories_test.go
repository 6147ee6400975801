package e2e

import (
	"testing"
)

// Nodes of the lab that `make test` brings up for the stories.
const (
	hostNode = "gpu-1" // driver is part of the OS image
	bareNode = "gpu-2" // the operator brings the driver
	cpuNode  = "cpu-1" // no GPU
	gpusEach = 8
)

// TestStories tells the life of a GPU cluster in order. A story that fails ends
// the test: what follows rests on it.
func TestStories(t *testing.T) {
	c := newCluster(t)
	stories := []struct {
		name string
		tell func(*testing.T, *cluster)
	}{
		{"the chart installs the operator", installOperator},
		{"one policy makes every GPU node ready", onePolicyMakesNodesReady},
		{"steps come in order", stepsComeInOrder},
		{"a node without a GPU gets the inspector and nothing else", cpuNodeGetsInspectorOnly},
		{"a pod sees exactly the GPU it was given", podsSeeTheirGPUs},
		{"no GPU without asking", noGPUWithoutAsking},
		{"an unchanged host is left alone", unchangedHostIsLeftAlone},
		{"a node whose driver never comes says why", driverNeverReadySaysWhy},
		{"an added node becomes ready with nobody's help", addedNodeBecomesReady},
		{"a rebooted node returns on new evidence", rebootedNodeReturns},
		{"a rebuilt node is the same node", rebuiltNodeIsTheSame},
		{"a node of another model with an old containerd is served too", oldRuntimeIsServed},
		{"a node that renders its runtime's configuration is served too", renderingNodeIsServed},
		{"nothing at rest", nothingAtRest},
		{"removal leaves the hosts as they were born", removalLeavesHostsAsBorn},
	}
	for _, s := range stories {
		if !t.Run(s.name, func(t *testing.T) { s.tell(t, c) }) {
			t.FailNow()
		}
	}
}
