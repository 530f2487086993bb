package broker

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Config is one broker, as the operator's file says:
//
//	orders:                                   # the name that jobs use
//	  url: nats://127.0.0.1:4222,127.0.0.2:4222
//	events:
//	  url: kafka+tls://kafka-1:9093
//	  user: belfry
//	  password_file: /run/secrets/kafka
//	  sasl: scram-sha-512                     # Kafka: plain (default), scram-sha-256, scram-sha-512
//	  ca: /etc/belfry/kafka-ca.pem
type Config struct {
	URL          string `yaml:"url"` // nats://, nats+tls://, kafka:// or kafka+tls://, with hosts separated by commas
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"` // read at each connection
	SASL         string `yaml:"sasl"`
	CA           string `yaml:"ca"`   // PEM file of the authorities that sign the broker's certificate; default: the system's
	Cert         string `yaml:"cert"` // PEM file of the node's own certificate
	Key          string `yaml:"key"`  // PEM file of its key
}

// The kinds of brokers, as URLs name them.
const (
	NATS  = "nats"
	Kafka = "kafka"
)

const withTLS = "+tls"

// Load reads the file of brokers.
func Load(path string) (map[string]Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("brokers: %w", err)
	}
	var brokers map[string]Config
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&brokers); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("brokers: %s: %w", path, err)
	}
	for name, c := range brokers {
		if err := c.validate(name); err != nil {
			return nil, fmt.Errorf("brokers: %s: %s: %w", path, name, err)
		}
	}
	return brokers, nil
}

func (c Config) validate(name string) error {
	kind, hosts := c.Kind(), c.hosts()
	switch {
	case !job.ValidBrokerName(name):
		return errors.New("a name has 1 to 128 of A-Z a-z 0-9 . _ -")
	case kind != NATS && kind != Kafka:
		return fmt.Errorf("url %q begins with none of nats://, nats+tls://, kafka:// and kafka+tls://", c.redacted())
	case len(hosts) == 0 || strings.ContainsAny(strings.Join(hosts, ""), "@/?# "):
		return fmt.Errorf("url %q is not a scheme with hosts, such as kafka://host1:9092,host2:9092; user and password have keys of their own", c.redacted())
	case kind == NATS && c.SASL != "":
		return errors.New("sasl is for Kafka")
	case (c.User == "") != (c.PasswordFile == ""):
		return errors.New("user and password_file go together")
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("cert and key go together")
	case !c.tls() && (c.CA != "" || c.Cert != ""):
		return fmt.Errorf("ca and cert are for %s+tls://", kind)
	}
	if _, known := mechanisms[c.SASL]; !known {
		return fmt.Errorf("sasl %q is none of plain, scram-sha-256 and scram-sha-512", c.SASL)
	}
	return nil
}

// Kind is NATS or Kafka, if the URL is right.
func (c Config) Kind() string {
	scheme, _, _ := strings.Cut(c.URL, "://")
	return strings.TrimSuffix(scheme, withTLS)
}

func (c Config) tls() bool {
	scheme, _, _ := strings.Cut(c.URL, "://")
	return strings.HasSuffix(scheme, withTLS)
}

func (c Config) hosts() []string {
	_, rest, _ := strings.Cut(c.URL, "://")
	var hosts []string
	for host := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		if host = strings.TrimSpace(host); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// redacted is the URL without a password that does not belong there.
func (c Config) redacted() string {
	if u, err := url.Parse(c.URL); err == nil {
		return u.Redacted()
	}
	scheme, _, _ := strings.Cut(c.URL, "://")
	return scheme + "://…"
}

func (c Config) password() (string, error) {
	if c.PasswordFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.PasswordFile)
	return strings.TrimRight(string(text), "\r\n"), err
}

// tlsConfig is nil without TLS.
func (c Config) tlsConfig() (*tls.Config, error) {
	if !c.tls() {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.CA)
		}
	}
	if c.Cert != "" {
		own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{own}
	}
	return out, nil
}
