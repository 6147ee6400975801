package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// certificate reads the first certificate of a PEM text.
func certificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%q is no PEM", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIssue(t *testing.T) {
	t.Parallel()
	a, err := Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("the authority's certificate is no PEM")
	}
	for name, tc := range map[string]struct {
		subject Subject
		host    string // must be served; "" for a client's certificate
		usage   x509.ExtKeyUsage
		other   x509.ExtKeyUsage // what it must not be good for
	}{
		"a client":            {Subject{Name: "system:node:gpu-1", Groups: []string{"system:nodes"}}, "", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		"a server by name":    {Subject{Name: "kube-apiserver", DNS: []string{"kubernetes.default.svc"}}, "kubernetes.default.svc", x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageCodeSigning},
		"a server by address": {Subject{Name: "kube-apiserver", IPs: []string{"10.96.0.1"}}, "10.96.0.1", x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageCodeSigning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := a.Issue(tc.subject)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
				t.Errorf("key and certificate: %v", err)
			}
			c := certificate(t, pair.Cert)
			if d := cmp.Diff(tc.subject.Groups, c.Subject.Organization); d != "" || c.Subject.CommonName != tc.subject.Name {
				t.Errorf("subject %v", c.Subject)
			}
			if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, KeyUsages: []x509.ExtKeyUsage{tc.usage}}); err != nil {
				t.Errorf("verifying it: %v", err)
			}
			if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{tc.other}}); err == nil {
				t.Error("it is good for more than it was made for")
			}
		})
	}
	if _, err := a.Issue(Subject{Name: "x", IPs: []string{"10.96.0.300"}}); err == nil || !strings.Contains(err.Error(), "10.96.0.300") {
		t.Errorf("a certificate for no address: %v", err)
	}
}

// TestEnsure: what a folder holds stays; what was not written to its end is made anew.
func TestEnsure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Authority {
		a, err := Open(dir, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first, err := open().Ensure(dir, "admin", Subject{Name: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := open().Ensure(dir, "admin", Subject{Name: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, again); d != "" {
		t.Error("a second look made another pair")
	}
	if err := os.Remove(filepath.Join(dir, "admin.crt")); err != nil {
		t.Fatal(err)
	}
	anew, err := open().Ensure(dir, "admin", Subject{Name: "admin"})
	if err != nil || cmp.Equal(first, anew) {
		t.Errorf("a pair whose writing was interrupted: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "admin.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := EnsureSigningKey(dir, "sa"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "sa.pub")); err != nil {
		t.Error(err)
	}
}
