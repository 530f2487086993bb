package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// authority is a CA.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := certificate("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert = a.sign(template, template, &a.key.PublicKey)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func certificate(name string, usages ...x509.ExtKeyUsage) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, ExtKeyUsage: usages,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func (a *authority) sign(template, parent *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

var bothUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// issue writes a certificate for a node into a directory, and returns it.
func (a *authority) issue(dir string, change ...func(*x509.Certificate)) (TLS, *x509.Certificate) {
	a.t.Helper()
	template := certificate("node", bothUsages...)
	for _, c := range change {
		c(template)
	}
	key := newKey(a.t)
	cert := a.sign(template, a.cert, &key.PublicKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	return TLS{
		CA:   write("ca.pem", "CERTIFICATE", a.cert.Raw),
		Cert: write("cert.pem", "CERTIFICATE", cert.Raw),
		Key:  write("key.pem", "EC PRIVATE KEY", der),
	}, cert
}

// node is a node's configuration with a certificate of the CA.
func (a *authority) node(change ...func(*x509.Certificate)) nodeConfig {
	a.t.Helper()
	files, _ := a.issue(a.t.TempDir(), change...)
	return plain.with(func(c *nodeConfig) { c.TLS = files })
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	a, b := start(t, ca.node()), start(t, ca.node())
	if r := a.request(b, 100, 100); r.OK != 100 {
		t.Errorf("%+v", r)
	}
}

// Whoever cannot show a certificate of the CA gets nothing delivered.
func TestRefusedByTLS(t *testing.T) {
	ca := newAuthority(t)
	b := start(t, ca.node())
	for name, c := range map[string]nodeConfig{
		"plaintext":               plain,
		"certificate of other CA": newAuthority(t).node(),
		"expired":                 ca.node(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"for servers only":        ca.node(func(c *x509.Certificate) { c.ExtKeyUsage = bothUsages[:1] }),
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, c)
			if r := a.tell(order{Op: "request", Address: b.address, ID: "echo", N: 1, Timeout: patience}); r.Dead != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
	for name, c := range map[string]credentials.TransportCredentials{
		"raw plaintext":  insecure.NewCredentials(),
		"no certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///"+b.address, grpc.WithTransportCredentials(c))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			stream, err := remote.NewRemotingClient(conn).Receive(t.Context())
			if err == nil {
				_, err = stream.Recv()
			}
			if err == nil {
				t.Error("a stream was opened")
			}
		})
	}
	if r := b.until("all are counted", func(r report) bool { return r.Metrics["refused_total{handshake}"] == 6 }); r.Got != 0 {
		t.Errorf("%+v", r)
	}
}

// A node sends nothing to a server of another CA, nor to one whose certificate
// is for clients only.
func TestServerRefused(t *testing.T) {
	ca := newAuthority(t)
	a := start(t, ca.node())
	right, _ := ca.issue(t.TempDir())
	other, _ := newAuthority(t).issue(t.TempDir())
	clients, _ := ca.issue(t.TempDir(), func(c *x509.Certificate) { c.ExtKeyUsage = bothUsages[1:] })
	for _, tt := range []struct {
		name  string
		files TLS
		came  bool // a stream
	}{{"right", right, true}, {"other CA", other, false}, {"for clients only", clients, false}} {
		t.Run(tt.name, func(t *testing.T) {
			address, came := serve(t, tt.files)
			r := a.tell(order{Op: "request", Address: address, ID: "echo", N: 1, Timeout: patience})
			if r.Dead != 1 || came.Load() != tt.came {
				t.Errorf("a stream came: %v; %+v", came.Load(), r)
			}
		})
	}
}

// serve answers every stream with an error and says whether one came.
func serve(t *testing.T, files TLS) (address string, came *atomic.Bool) {
	t.Helper()
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came = &atomic.Bool{}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&own)), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		came.Store(true)
		return status.Error(codes.Unavailable, "not today")
	}))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String(), came
}

// shown is the certificate that a node shows to a new connection with the
// given one; an error is a refusal.
func shown(t *testing.T, address string, own TLS) *x509.Certificate {
	t.Helper()
	i, err := newIdentity(own, discard)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", address, i.client())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// New files are used by new connections, in both directions and without a
// restart; half of a change keeps the old ones.
func TestRotation(t *testing.T) {
	dirA, dirB, dirProbe := t.TempDir(), t.TempDir(), t.TempDir()
	ca := newAuthority(t)
	filesA, _ := ca.issue(dirA)
	filesB, first := ca.issue(dirB)
	probe, _ := ca.issue(dirProbe)
	a := start(t, plain.with(func(c *nodeConfig) { c.TLS = filesA }))
	b := start(t, plain.with(func(c *nodeConfig) { c.TLS = filesB }))
	if r := a.request(b, 1, 0); r.OK != 1 {
		t.Fatalf("%+v", r)
	}

	if err := os.WriteFile(filesB.Key, []byte("half a ke"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, b.address, probe); got.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Errorf("with half a key b shows certificate %v, want the last good one", got.SerialNumber)
	}

	next := newAuthority(t)
	next.issue(dirA)
	_, second := next.issue(dirB)
	next.issue(dirProbe)
	if got := shown(t, b.address, probe); got.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Errorf("b shows certificate %v, want the new one, %v", got.SerialNumber, second.SerialNumber)
	}
	// The other way b dials for the first time, with its new certificate.
	if r := b.request(a, 1, 0); r.OK != 1 {
		t.Errorf("%+v", r)
	}
	old := start(t, ca.node())
	if r := old.tell(order{Op: "request", Address: b.address, ID: "echo", N: 1, Timeout: patience}); r.Dead != 1 {
		t.Errorf("the old CA: %+v", r)
	}
}
