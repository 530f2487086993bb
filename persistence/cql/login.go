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
