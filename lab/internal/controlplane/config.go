package controlplane

import "path/filepath"

// The addresses inside the lab's network namespace.
const (
	// GatewayIP is the bridge's address: the nodes reach the API server on it.
	GatewayIP = "10.200.0.1"
	// ServiceIP is the address of the service "kubernetes"; the bridge has it too,
	// so no kube-proxy is needed to reach the API server by it.
	ServiceIP = "10.96.0.1"
	// APIServerURL is what every client uses.
	APIServerURL = "https://" + GatewayIP + ":443"

	serviceRange = "10.96.0.0/16"
	etcdURL      = "http://127.0.0.1:2379"
	etcdPeerURL  = "http://127.0.0.1:2380"
	issuer       = "https://kubernetes.default.svc"
)

// Dirs are the folders of one control plane.
type Dirs struct {
	// State holds certificates, kubeconfigs, etcd's data and logs; Run holds pid files.
	State, Run string
	// Etcd and Kube hold the programs.
	Etcd, Kube string
}

func (d Dirs) pki(name string) string        { return filepath.Join(d.State, "pki", name) }
func (d Dirs) kubeconfig(name string) string { return filepath.Join(d.State, name+".kubeconfig") }
func (d Dirs) logs() string                  { return filepath.Join(d.State, "logs") }

// AdminKubeconfig is the configuration that people use.
func (d Dirs) AdminKubeconfig() string { return filepath.Join(d.State, "kubeconfig") }

// AuditLog holds the API requests of service accounts and people, one JSON object
// a line (metadata only).
func (d Dirs) AuditLog() string { return filepath.Join(d.logs(), "audit.log") }

// auditPolicy records who asked for what; the control plane's own requests and
// the kubelets' would drown the rest.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: ["RequestReceived"]
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: None
  userGroups: ["system:nodes"]
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
- level: Metadata
`

// processes are the control plane's programs in the order of their start.
func (d Dirs) processes() []Process {
	mk := func(name, bin string, flags ...string) Process {
		return Process{Name: name, Argv: append([]string{filepath.Join(bin, name)}, flags...), RunDir: d.Run, LogDir: d.logs()}
	}
	client := func(name string) []string {
		kc := d.kubeconfig(name)
		return []string{
			"--kubeconfig=" + kc, "--authentication-kubeconfig=" + kc, "--authorization-kubeconfig=" + kc,
			"--bind-address=127.0.0.1", "--leader-elect=false", "--profiling=false",
			"--tls-cert-file=" + d.pki("loopback.crt"), "--tls-private-key-file=" + d.pki("loopback.key"),
			// One machine plays a whole cluster: the defaults are for thousands of clients.
			"--kube-api-qps=500", "--kube-api-burst=1000",
		}
	}
	return []Process{
		mk("etcd", d.Etcd,
			"--name=gpulab", "--data-dir="+filepath.Join(d.State, "etcd"),
			"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
			"--listen-peer-urls="+etcdPeerURL, "--initial-advertise-peer-urls="+etcdPeerURL,
			"--initial-cluster=gpulab="+etcdPeerURL,
			// A lab's data need not survive a power cut, and other things use the disk.
			"--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=4294967296",
			"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m"),
		mk("kube-apiserver", d.Kube,
			"--etcd-servers="+etcdURL,
			"--bind-address=0.0.0.0", "--secure-port=443", "--advertise-address="+GatewayIP,
			"--service-cluster-ip-range="+serviceRange,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true", "--client-ca-file="+d.pki("ca.crt"),
			"--tls-cert-file="+d.pki("apiserver.crt"), "--tls-private-key-file="+d.pki("apiserver.key"),
			"--kubelet-client-certificate="+d.pki("apiserver-kubelet.crt"),
			"--kubelet-client-key="+d.pki("apiserver-kubelet.key"),
			"--kubelet-certificate-authority="+d.pki("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer="+issuer, "--api-audiences="+issuer,
			"--service-account-key-file="+d.pki("sa.pub"), "--service-account-signing-key-file="+d.pki("sa.key"),
			// Without kube-proxy webhooks must be called at their endpoints.
			"--enable-aggregator-routing=true", "--endpoint-reconciler-type=lease",
			"--max-requests-inflight=1000", "--max-mutating-requests-inflight=500",
			"--audit-policy-file="+filepath.Join(d.State, "audit-policy.yaml"), "--audit-log-path="+d.AuditLog(),
			"--audit-log-mode=batch", "--audit-log-maxsize=200", "--audit-log-maxbackup=2", "--profiling=false"),
		mk("kube-controller-manager", d.Kube, append(client("kube-controller-manager"),
			"--use-service-account-credentials=true",
			"--service-account-private-key-file="+d.pki("sa.key"), "--root-ca-file="+d.pki("ca.crt"),
			// The lab gives the nodes their pod ranges itself.
			"--controllers=*,-node-ipam-controller",
			"--concurrent-gc-syncs=10")...),
		mk("kube-scheduler", d.Kube, client("kube-scheduler")...),
	}
}
