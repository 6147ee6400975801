// Package pki makes the lab's certificates: one authority that lives in the
// lab's state folder, serving and client certificates for every component, and
// the key that signs service account tokens. Keys are ECDSA P-256, and
// everything is valid for as long as a lab may live.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of every certificate; a lab does not outlive it.
const lifetime = 2 * 365 * 24 * time.Hour

// skew is how far the clock of another component may be behind.
const skew = time.Hour

// Pair is a certificate with its key, both PEM.
type Pair struct{ Cert, Key []byte }

// Subject is what a certificate says and what it may be used for.
type Subject struct {
	// Name is the common name (the user, for a client); Groups its organizations.
	Name   string
	Groups []string
	// IPs and DNS make it a serving certificate; without them it is a client's.
	IPs []string
	DNS []string
}

// Authority signs the lab's certificates.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
	now  func() time.Time
}

// Open loads the authority of a folder, or makes it on first use.
func Open(dir string, now func() time.Time) (*Authority, error) {
	pair, err := readPair(dir, "ca")
	if errors.Is(err, fs.ErrNotExist) {
		if pair, err = newAuthority(now()); err == nil {
			err = WritePair(dir, "ca", pair)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lab's certificate authority: %w", err)
	}
	cert, key, err := parse(pair)
	if err != nil {
		return nil, fmt.Errorf("reading the lab's certificate authority in %q: %w", dir, err)
	}
	return &Authority{cert: cert, pem: pair.Cert, key: key, now: now}, nil
}

// PEM is the authority's certificate, for clients to trust.
func (a *Authority) PEM() []byte { return a.pem }

// Issue makes a certificate.
func (a *Authority) Issue(s Subject) (Pair, error) {
	template, err := template(s, a.now())
	if err != nil {
		return Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making a key for %q: %w", s.Name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %q: %w", s.Name, err)
	}
	return encode(der, key)
}

// Ensure returns the pair of that name in dir, issuing and writing it on first use.
func (a *Authority) Ensure(dir, name string, s Subject) (Pair, error) {
	pair, err := readPair(dir, name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return pair, err
	}
	if pair, err = a.Issue(s); err != nil {
		return Pair{}, err
	}
	return pair, WritePair(dir, name, pair)
}

// EnsureSigningKey writes the key that signs service account tokens (name.key)
// and its public half (name.pub), once.
func EnsureSigningKey(dir, name string) error {
	if _, err := os.Stat(filepath.Join(dir, name+".pub")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the service account key: %w", err)
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := write(dir, name+".key", private); err != nil {
		return err
	}
	return write(dir, name+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}))
}

// template fills in an X.509 certificate for a subject.
func template(s Subject, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:     s.DNS,
	}
	for _, ip := range s.IPs {
		parsed := net.ParseIP(ip)
		if parsed == nil {
			return nil, fmt.Errorf("%q in the certificate of %q is no IP address", ip, s.Name)
		}
		t.IPAddresses = append(t.IPAddresses, parsed)
	}
	if len(s.DNS)+len(s.IPs) > 0 {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return t, nil
}

// newAuthority makes a self-signed certificate that may sign others.
func newAuthority(now time.Time) (Pair, error) {
	t, err := template(Subject{Name: "gpulab"}, now)
	if err != nil {
		return Pair{}, err
	}
	t.IsCA, t.BasicConstraintsValid, t.ExtKeyUsage = true, true, nil
	t.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the authority's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the authority's certificate: %w", err)
	}
	return encode(der, key)
}

func encode(der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	k, err := encodeKey(key)
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: k}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// parse reads a pair back.
func parse(p Pair) (*x509.Certificate, crypto.Signer, error) {
	c, _ := pem.Decode(p.Cert)
	k, _ := pem.Decode(p.Key)
	if c == nil || k == nil {
		return nil, nil, errors.New("certificate or key is not PEM")
	}
	cert, err := x509.ParseCertificate(c.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing the certificate: %w", err)
	}
	key, err := x509.ParseECPrivateKey(k.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing the key: %w", err)
	}
	return cert, key, nil
}

func readPair(dir, name string) (Pair, error) {
	cert, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return Pair{}, fmt.Errorf("reading certificate %q: %w", name, err)
	}
	key, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		return Pair{}, fmt.Errorf("reading the key of %q: %w", name, err)
	}
	return Pair{Cert: cert, Key: key}, nil
}

// WritePair writes name.key and then name.crt: a pair whose writing was
// interrupted has no certificate and is made anew.
func WritePair(dir, name string, p Pair) error {
	if err := write(dir, name+".key", p.Key); err != nil {
		return err
	}
	return write(dir, name+".crt", p.Cert)
}

// write puts a file in place at once, readable by root only.
func write(dir, name string, b []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the certificates' folder: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("putting %q in place: %w", name, err)
	}
	return nil
}
