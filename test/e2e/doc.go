// Package e2e holds the stories that are told on a real cluster: a lab of real
// systemd nodes with simulated GPUs (see lab/). Each story is one subtest of
// TestStories, told in order on one lab, because the life of a node is a
// sequence: installed, used, rebooted, rebuilt, cleaned.
//
// The stories run inside the lab's network namespace, started by
// "gpulab run -- go test ./test/e2e"; KUBECONFIG and GPULAB name the cluster and
// the lab's command.
package e2e
