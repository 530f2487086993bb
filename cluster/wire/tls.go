package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// identity is what a process shows, and what it demands of others: the files of
// TLS as they were when they last made sense.
type identity struct {
	files TLS
	log   *slog.Logger

	mu   sync.Mutex
	last papers
}

type papers struct {
	own tls.Certificate
	ca  *x509.CertPool
}

// newIdentity reads the files; later on it goes on with the last good ones.
func newIdentity(files TLS, log *slog.Logger) (*identity, error) {
	p, err := readPapers(files)
	if err != nil {
		return nil, err
	}
	return &identity{files: files, log: log, last: p}, nil
}

func readPapers(files TLS) (papers, error) {
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return papers{}, fmt.Errorf("read certificate %s and key %s: %w", files.Cert, files.Key, err)
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		return papers{}, fmt.Errorf("read CA: %w", err)
	}
	ca := x509.NewCertPool()
	if !ca.AppendCertsFromPEM(pem) {
		return papers{}, fmt.Errorf("read CA %s: no certificate in it", files.CA)
	}
	return papers{own: own, ca: ca}, nil
}

// now reads the files again: handshakes are few.
func (i *identity) now() papers {
	p, err := readPapers(i.files)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.log.Warn("certificates cannot be read, using the last good ones", "error", err)
		return i.last
	}
	i.last = p
	return p
}

// server is the configuration for connections that come in. Sessions are not
// resumed: each connection shows its certificate.
func (i *identity) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			p := i.now()
			return &tls.Config{
				MinVersion:             tls.VersionTLS13,
				Certificates:           []tls.Certificate{p.own},
				ClientAuth:             tls.RequireAndVerifyClientCert,
				ClientCAs:              p.ca,
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// client is the configuration for connections that go out. Go's own check wants
// a host name, which nodes have no use for: they are known by their CA. So it is
// switched off, and verify takes its place.
func (i *identity) client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own := i.now().own
			return &own, nil
		},
		InsecureSkipVerify: true,
		VerifyConnection:   func(c tls.ConnectionState) error { return verify(c.PeerCertificates, i.now().ca) },
	}
}

// verify wants a server's certificate that the CA signed.
func verify(chain []*x509.Certificate, ca *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("the peer shows no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         ca,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// secrecy is the credentials of both directions.
type secrecy struct {
	server, client credentials.TransportCredentials
}

// newSecrecy has refused told of each connection that comes in and does not
// get through the handshake.
func newSecrecy(files TLS, log *slog.Logger, refused func(peer net.Addr, err error)) (secrecy, error) {
	if !files.on() {
		return secrecy{insecure.NewCredentials(), insecure.NewCredentials()}, nil
	}
	i, err := newIdentity(files, log)
	if err != nil {
		return secrecy{}, err
	}
	return secrecy{watched{credentials.NewTLS(i.server()), refused}, credentials.NewTLS(i.client())}, nil
}

// watched is credentials of a server whose failures are seen: gRPC keeps them to
// itself.
type watched struct {
	credentials.TransportCredentials
	refused func(net.Addr, error)
}

func (w watched) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	safe, info, err := w.TransportCredentials.ServerHandshake(c)
	if err != nil {
		w.refused(c.RemoteAddr(), err)
	}
	return safe, info, err
}

func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone(), w.refused}
}
