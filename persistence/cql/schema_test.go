package cql

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

// definitions counts statements of the schema on their way to the server.
type definitions struct{ keyspaces, bootstraps, tables atomic.Int32 }

func (d *definitions) rule(r cqlproxy.Request) cqlproxy.Action {
	switch {
	case r.Mentions("CREATE KEYSPACE"):
		d.keyspaces.Add(1)
	case r.Mentions(".bootstrap (") && r.Mentions("CREATE TABLE"):
		d.bootstraps.Add(1)
	case r.Mentions("CREATE TABLE"):
		d.tables.Add(1)
	}
	return cqlproxy.Pass()
}

func (d *definitions) sum() int32 {
	return d.keyspaces.Load() + d.bootstraps.Load() + d.tables.Load()
}

// TestManyNodesStartAtOnce: each table is made once, whoever makes it, and all
// nodes agree on the constants.
func TestManyNodesStartAtOnce(t *testing.T) {
	const nodes = 6
	b := setup(t)
	p := cqlproxy.Start(t, b.db.Hosts()[0])
	var d definitions
	p.Decide(d.rule)
	b.cfg.seams.dial = cqlproxy.Via(p).DialContext
	var wg sync.WaitGroup
	var found [nodes]persistence.Cluster
	var errs [nodes]error
	stores := make([]*Store, nodes)
	for i := range nodes {
		wg.Go(func() {
			if stores[i], errs[i] = Open(t.Context(), b.cfg); errs[i] == nil {
				found[i], errs[i] = stores[i].Cluster(t.Context(), storetest.Constants())
			}
		})
	}
	wg.Wait()
	for i := range nodes {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		defer stores[i].Close()
		if found[i] != found[0] || found[i].ID == uuid.Nil {
			t.Errorf("node %d found %+v, node 0 %+v", i, found[i], found[0])
		}
	}
	if n := d.tables.Load(); n != 3 {
		t.Errorf("%d tables were made, want 3", n)
	}
	before := d.sum()
	b.open()
	if n := d.sum() - before; n != 0 {
		t.Errorf("a node that found the schema sent %d statements of it", n)
	}
}

// TestLockOfTheDead: a node that died while it changed the schema keeps nobody
// out for longer than its lock lives.
func TestLockOfTheDead(t *testing.T) {
	b := setup(t)
	first := b.open()
	for _, statement := range []string{
		"DROP TABLE nodes", "DELETE version FROM bootstrap WHERE what = 'schema' IF EXISTS",
		"INSERT INTO bootstrap (what, holder) VALUES ('lock', " + uuid.NewString() + ") IF NOT EXISTS USING TTL 2",
	} {
		if err := first.db.ExecStmt(statement); err != nil {
			t.Fatal(err)
		}
	}
	b.open()
	var version int
	if err := first.db.Query("SELECT version FROM bootstrap WHERE what = 'schema'", nil).Get(&version); err != nil || version != 1 {
		t.Errorf("version %d, %v", version, err)
	}
	if err := first.db.ExecStmt("SELECT node FROM nodes"); err != nil {
		t.Error(err)
	}
}

// TestAnotherSerialDataCentre: a node that would agree with other replicas than
// the rest is refused.
func TestAnotherSerialDataCentre(t *testing.T) {
	b := setup(t)
	s := b.open()
	if _, err := s.Cluster(t.Context(), storetest.Constants()); err != nil {
		t.Fatal(err)
	}
	other := b.open()
	other.cfg.LocalDC = "elsewhere"
	_, err := other.Cluster(t.Context(), storetest.Constants())
	var m *persistence.Mismatch
	if !errors.As(err, &m) || m.Setting != "serial data centre" || m.Want != "elsewhere" {
		t.Errorf("got error %v, want Mismatch", err)
	}
	b.cfg.LocalDC = "nowhere"
	_, err = Open(t.Context(), b.cfg)
	var wrong *WrongDC
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), b.db.LocalDC()) {
		t.Errorf("got error %v, want WrongDC", err)
	}
}

// TestConstantsBesideAFence: the system partition may have been read before the
// constants are stored.
func TestConstantsBesideAFence(t *testing.T) {
	b := setup(t)
	s := b.open()
	c := newChain(t, s, job.SystemPartition)
	made, err := s.Cluster(t.Context(), storetest.Constants())
	if err != nil || made.Partitions != storetest.Partitions {
		t.Fatalf("constants: %+v, %v", made, err)
	}
	c.must("commit", c.commit(persistence.Batch{}))
	again, err := b.open().Cluster(t.Context(), storetest.Constants())
	if err != nil || again != made {
		t.Errorf("constants: %+v, %v, want %+v", again, err, made)
	}
}

// TestOpenWaits: with nobody there it says so, and ends with its context.
func TestOpenWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	heard := 0
	_, err = Open(ctx, Config{Hosts: []string{addr}, LocalDC: "dc", Waiting: func(why string) {
		if heard++; heard == 3 {
			cancel(enough)
		}
		if !strings.Contains(why, addr) {
			t.Errorf("it says %q", why)
		}
	}})
	if !errors.Is(err, enough) || heard != 3 {
		t.Errorf("got error %v after %d times, want the context's", err, heard)
	}
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	good := Config{Hosts: []string{"h"}, LocalDC: "dc"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*Config){
		"Hosts":            func(c *Config) { c.Hosts = nil },
		"LocalDC":          func(c *Config) { c.LocalDC = "" },
		"Keyspace":         func(c *Config) { c.Keyspace = "x; DROP" },
		"PasswordFile":     func(c *Config) { c.Username = "u" },
		"KeyFile":          func(c *Config) { c.CertFile = "c" },
		"Retention":        func(c *Config) { c.Retention = time.Second },
		"Timeout":          func(c *Config) { c.Timeout = -1 },
		"Connections":      func(c *Config) { c.Connections = -1 },
		"Replication":      func(c *Config) { c.Replication = map[string]int{"dc": 0} },
		"no copies in Loc": func(c *Config) { c.Replication = map[string]int{"other": 3} },
	} {
		c := good
		change(&c)
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got error %v", field, err)
		}
	}
	for field, change := range map[string]func(*Config){
		"PasswordFile": func(c *Config) { c.Username, c.PasswordFile = "u", "/does/not/exist" },
		"CAFile":       func(c *Config) { c.CAFile = "schema.go" },
		"CertFile":     func(c *Config) { c.CertFile, c.KeyFile = "schema.go", "schema.go" },
	} {
		c := good
		change(&c)
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got error %v", field, err)
		}
	}
}

func TestPasswordIsReadFromItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("s3cret \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Config{Hosts: []string{"h"}, LocalDC: "dc", Username: "u", PasswordFile: path}.withDefaults().driver()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Authenticator.(gocql.PasswordAuthenticator); !ok || got.Username != "u" || got.Password != "s3cret " {
		t.Errorf("the login is %+v", d.Authenticator)
	}
}

func TestTablets(t *testing.T) {
	const off = " AND tablets = {'enabled': false}"
	for version, want := range map[string]string{
		"": "", "5.4.9": "", "6.0.0": off, "6.2.1-0.20241120": off, "2023.1.2": "", "2024.1.7": "", "2024.2.0": off,
		"2025.1.0": off, "2025.3.9-rc1": off, "2025.4.0": "", "2025.4-rc0": "", "2026.1.0": "", "who knows": off,
	} {
		if got := tablets(version); got != want {
			t.Errorf("ScyllaDB %q: %q, want %q", version, got, want)
		}
	}
}

func TestReplication(t *testing.T) {
	at := topology{nodes: map[string]int{"a": 5, "b": 2}}
	for want, c := range map[string]Config{
		"{'class': 'NetworkTopologyStrategy', 'a': 3}":            {LocalDC: "a"},
		"{'class': 'NetworkTopologyStrategy', 'b': 2}":            {LocalDC: "b"},
		"{'class': 'NetworkTopologyStrategy', 'a': 5, 'b''s': 1}": {LocalDC: "a", Replication: map[string]int{"b's": 1, "a": 5}},
	} {
		if got := at.replication(c); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWindows(t *testing.T) {
	for retention, want := range map[time.Duration]int{time.Hour: 1, 30 * 24 * time.Hour: 1, 31 * 24 * time.Hour: 2, 365 * 24 * time.Hour: 13} {
		if got := windowDays(retention); got != want {
			t.Errorf("%s: windows of %d days, want %d", retention, got, want)
		}
	}
}
