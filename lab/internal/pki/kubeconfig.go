package pki

import (
	"encoding/base64"
	"fmt"
)

// Kubeconfig renders a client configuration that holds everything itself, so
// that it can be read wherever it is copied to. server is the API's address
// (https://host:port).
func Kubeconfig(server string, ca []byte, client Pair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: gpulab
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: gpulab
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: gpulab
  context:
    cluster: gpulab
    user: gpulab
current-context: gpulab
`, server, b64(ca), b64(client.Cert), b64(client.Key))
}
