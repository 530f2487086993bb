package cql

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestGuardedDatabase: TLS with certificates on both sides and a login, at a
// database that asks for them. Whoever cannot come in is told why, and waits:
// the database may be changed, or not be ready yet.
func TestGuardedDatabase(t *testing.T) {
	if os.Getenv(cassandra.HostsVariable) != "" {
		t.Logf("%s names a database that has no guard: nothing is tried", cassandra.HostsVariable)
		return
	}
	db, err := cassandra.Open(t.Context(), cassandra.Config{Nodes: 1, Guarded: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(t.Failed()); err != nil {
			t.Errorf("end the database: %v", err)
		}
	})
	g := guarded{db: db, dir: t.TempDir()}
	t.Run("comes in", func(t *testing.T) {
		s, err := Open(t.Context(), g.config(t, g.write(t, "password", db.Guard().Password+"\n")))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := newChain(t, s, 0)
		c.must("commit", c.commit(persistence.Batch{Rows: []persistence.Row{{JobID: "j", Status: job.Active, State: []byte("here")}}}))
		row, err := s.Get(t.Context(), 0, 0, "j", "")
		if err != nil || string(row.State) != "here" {
			t.Errorf("read back: %+v, %v", row, err)
		}
	})
	for _, test := range []struct {
		name   string
		change func(*testing.T, *Config)
		want   string
	}{
		{"wrong password", func(t *testing.T, c *Config) { c.PasswordFile = g.write(t, "wrong", "letmein") }, "password"},
		{"no login", func(_ *testing.T, c *Config) { c.Username, c.PasswordFile = "", "" }, "uthentication"},
		{"authority of others", func(t *testing.T, c *Config) { c.CAFile = g.write(t, "others.pem", string(g.authority(t).PEM)) }, "unknown authority"},
		{"no certificate", func(_ *testing.T, c *Config) { c.CertFile, c.KeyFile = "", "" }, "certificate"},
		{"certificate of others", func(t *testing.T, c *Config) { c.CertFile, c.KeyFile = g.certificate(t) }, "certificate"},
		{"no TLS", func(_ *testing.T, c *Config) { c.CAFile, c.CertFile, c.KeyFile = "", "", "" }, "TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := g.config(t, g.write(t, "password", db.Guard().Password))
			test.change(t, &cfg)
			said, err := g.refused(t, cfg)
			if !strings.Contains(said, test.want) || !strings.Contains(said, db.Hosts()[0]) {
				t.Errorf("it waits and says %q, want the address and %q", said, test.want)
			}
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("when it is stopped: %v, want %q", err, test.want)
			}
		})
	}
}

// guarded makes configs for a guarded database.
type guarded struct {
	db  *cassandra.Server
	dir string
}

func (g guarded) config(t *testing.T, password string) Config {
	cfg := setupConfig(t, g.db)
	guard := g.db.Guard()
	cfg.Username, cfg.PasswordFile = guard.User, password
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = guard.CAFile, guard.CertFile, guard.KeyFile
	return cfg
}

func (g guarded) write(t *testing.T, name, text string) string {
	path := filepath.Join(g.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (g guarded) authority(t *testing.T) *cassandra.Authority {
	a, err := cassandra.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// certificate is one that the database's authority has not signed.
func (g guarded) certificate(t *testing.T) (cert, key string) {
	c, k, err := g.authority(t).Issue(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Fatal(err)
	}
	return g.write(t, "others-client.pem", string(c)), g.write(t, "others-client.key", string(k))
}

// refused waits until Open has said twice why it waits, and stops it.
func (g guarded) refused(t *testing.T, cfg Config) (said string, err error) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	times := 0
	cfg.Waiting = func(why string) {
		mu.Lock()
		defer mu.Unlock()
		if said, times = why, times+1; times == 2 {
			stop()
		}
	}
	s, err := Open(ctx, cfg)
	if err == nil {
		s.Close()
		t.Fatal("it came in")
	}
	return said, err
}
