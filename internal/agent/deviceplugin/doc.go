// Package deviceplugin is the agent that offers a node's GPUs to the kubelet. One
// loop looks at the GPUs and at the CDI specs and says which units are fit; one
// server a resource tells the kubelet, and registers again whenever the kubelet may
// have forgotten it: after a restart of the kubelet, when its own socket was removed,
// when the kubelet's stream ended. A server never asks the driver anything, so it is
// back within a second also when a GPU hangs.
package deviceplugin
