package cassandra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Guard is what a client of a guarded server needs.
type Guard struct {
	Dir      string
	CAFile   string // signs the server's certificate, and the client's
	CertFile string // the client's own
	KeyFile  string
	User     string // who may do everything. It is there some time after the start.
	Password string
}

// newGuard makes an authority, and certificates for a server at an address and
// for its clients.
func newGuard(dir, address string) (*Guard, error) {
	g := &Guard{
		Dir: dir, CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key"),
		User: "cassandra", Password: "cassandra",
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	server, serverKey, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "database"}, IPAddresses: []net.IP{net.ParseIP(address)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	client, clientKey, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{
		g.CAFile: ca.PEM, g.CertFile: client, g.KeyFile: clientKey, filepath.Join(dir, "server.pem"): append(serverKey, server...),
	} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// dialer dials as a client does that needs no login; without a Guard, as anybody.
func (g *Guard) dialer() func(context.Context, string) (*frame.Conn, error) {
	if g == nil {
		return frame.Dial
	}
	return func(ctx context.Context, host string) (*frame.Conn, error) {
		own, err := tls.LoadX509KeyPair(g.CertFile, g.KeyFile)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(g.CAFile)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{own}}}
		nc, err := d.DialContext(ctx, "tcp", host)
		if err != nil {
			return nil, err
		}
		return frame.Over(ctx, nc)
	}
}

// Authority signs certificates, for a day.
type Authority struct {
	PEM []byte // its own certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that nobody knows yet.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	a := &Authority{key: key, cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := a.sign(a.cert, key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

// Issue makes a certificate and its key, both in PEM form.
func (a *Authority) Issue(want *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate: %w", err)
	}
	want.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(want, k)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

func (a *Authority) sign(want *x509.Certificate, of *ecdsa.PrivateKey) ([]byte, error) {
	var err error
	if want.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)); err != nil {
		return nil, err
	}
	want.NotBefore, want.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	return x509.CreateCertificate(rand.Reader, want, a.cert, &of.PublicKey, a.key)
}
