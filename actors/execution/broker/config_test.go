package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "brokers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	t.Parallel()
	got, err := Load(file(t, `
orders:
  url: nats://127.0.0.1:4222, 127.0.0.2:4222
events:
  url: kafka+tls://kafka-1:9093
  user: belfry
  password_file: /run/secrets/kafka
  sasl: scram-sha-512
  ca: ca.pem
`))
	if err != nil {
		t.Fatal(err)
	}
	if c := got["orders"]; c.Kind() != NATS || c.tls() || strings.Join(c.hosts(), " ") != "127.0.0.1:4222 127.0.0.2:4222" {
		t.Errorf("orders: %+v", c)
	}
	if c := got["events"]; c.Kind() != Kafka || !c.tls() || c.SASL != "scram-sha-512" || c.PasswordFile != "/run/secrets/kafka" {
		t.Errorf("events: %+v", c)
	}
	if got, err := Load(file(t, "")); err != nil || len(got) != 0 {
		t.Errorf("an empty file: %v, %v", got, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"a: {url: 'amqp://h:1'}":                         "begins with none",
		"a: {url: 'h:4222'}":                             "begins with none",
		"a: {url: 'nats://'}":                            "hosts",
		"a: {url: 'nats://user:hunter2@h:4222'}":         "keys of their own",
		"a: {url: 'kafka://h:9092/topic'}":               "hosts",
		"a: {url: 'nats://h:1', sasl: plain}":            "sasl is for Kafka",
		"a: {url: 'kafka://h:1', sasl: gssapi}":          "none of plain",
		"a: {url: 'kafka://h:1', user: u}":               "go together",
		"a: {url: 'kafka+tls://h:1', cert: c}":           "go together",
		"a: {url: 'kafka://h:1', ca: c}":                 "kafka+tls",
		"'a b': {url: 'nats://h:1'}":                     "A-Z",
		"a: {url: 'nats://h:1', pasword_file: x}":        "pasword_file",
		"a: {url: 'nats://h:1'}\na: {url: 'nats://h:2'}": "already defined",
		"- a": "cannot unmarshal",
		"a: {url: 'kafka://belfry:hunter2@h:1', user: u, password_file: /run/x}": "keys of their own",
	} {
		switch got, err := Load(file(t, text)); {
		case err == nil:
			t.Errorf("%s: taken for %v", text, got)
		case !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: %v: want %q, and no password", text, err, why)
		}
	}
	if _, err := Load("/nonexistent/brokers.yaml"); err == nil {
		t.Error("a missing file is taken")
	}
}
