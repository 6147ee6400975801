// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as plain processes inside the lab's network namespace. They
// outlive the command that started them; each is found again by its pid file,
// which names the process beyond doubt (pid, start time, boot), never by its
// name. They are stopped in an order that does not hang: who uses the API first,
// then the API server, then etcd.
package controlplane
