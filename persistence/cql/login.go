package cql

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/gocql/gocql"
)

// login sets who we are and whom we believe.
func (c Config) login(to *gocql.ClusterConfig) error {
	if c.Username != "" {
		password, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return fmt.Errorf("cql store: PasswordFile: %w", err)
		}
		to.Authenticator = gocql.PasswordAuthenticator{
			Username: c.Username,
			Password: strings.TrimSuffix(strings.TrimSuffix(string(password), "\n"), "\r"),
		}
	}
	if c.CAFile == "" && c.CertFile == "" {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return fmt.Errorf("cql store: CAFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("cql store: CAFile %s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		own, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return fmt.Errorf("cql store: CertFile and KeyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	to.SslOpts = &gocql.SslOptions{Config: config, EnableHostVerification: true}
	return nil
}

// refusedAs is why no connection could be made: what the driver says last, and
// what that means where a database that closes its door says little (Cassandra
// answers an unknown certificate with "internal error", and a client without
// TLS not at all).
func refusedAs(text string, secure bool) string {
	if i := strings.LastIndex(text, driverPrefix); i >= 0 {
		text = text[i+len(driverPrefix):]
	}
	text = strings.TrimSpace(text)
	if _, why, ok := strings.Cut(text, ": read: "); ok {
		text = "read: " + why // without our port, which is another each time
	}
	switch {
	case strings.Contains(text, "remote error: tls:"), secure && strings.Contains(text, "no response to connection startup"):
		text += ": the database may want a certificate (CertFile, KeyFile) that is signed by an authority it trusts"
	case !secure && (strings.HasSuffix(text, "connection reset by peer") || strings.HasSuffix(text, "EOF")):
		text += ": the database may want TLS (CAFile)"
	}
	return text
}

// driverPrefix ends what the driver puts before the reason of the last host.
const driverPrefix = "unable to connect to initial hosts: "
