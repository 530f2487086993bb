package cqlproxy_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// watched dials what the driver asks for and remembers it.
type watched struct {
	inner gocql.Dialer
	mu    sync.Mutex
	peers []string
}

func (w *watched) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := w.inner.DialContext(ctx, network, addr)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.peers = append(w.peers, c.RemoteAddr().String())
	}
	return c, err
}

// A driver with discovery on, in both ways of the package comment, connects to
// the proxy and to nothing else, and the proxy knows its statements.
func TestDriverStaysOnProxy(t *testing.T) {
	db := cassandra.Start(t, 1)
	for name, on := range map[string]func(*gocql.ClusterConfig, *cqlproxy.Proxy) gocql.Dialer{
		"via": func(c *gocql.ClusterConfig, p *cqlproxy.Proxy) gocql.Dialer {
			c.Hosts = db.Hosts()
			return cqlproxy.Via(p)
		},
		"translate": func(c *gocql.ClusterConfig, p *cqlproxy.Proxy) gocql.Dialer {
			c.Hosts = []string{p.Host()}
			c.AddressTranslator = cqlproxy.Translate(p)
			return &net.Dialer{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := cqlproxy.Start(t, db.Hosts()[0])
			c := gocql.NewCluster()
			w := &watched{inner: on(c, p)}
			c.Dialer = w
			s := session(t, c)
			swallowed(t, s, p, "driver_"+name)
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.peers) < 2 || slices.ContainsFunc(w.peers, func(a string) bool { return a != p.Addr() }) {
				t.Errorf("the driver dialled %v, the proxy is %s", w.peers, p.Addr())
			}
		})
	}
}

func session(t *testing.T, c *gocql.ClusterConfig) *gocql.Session {
	t.Helper()
	c.ProtoVersion = 4
	c.DisableShardAwarePort = true
	c.Timeout = 2 * time.Second
	c.Consistency, c.SerialConsistency = gocql.LocalQuorum, gocql.LocalSerial
	c.RetryPolicy = &gocql.SimpleRetryPolicy{}
	s, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// swallowed sends a conditional write whose answer is swallowed: the driver
// times out, and the row is there.
func swallowed(t *testing.T, s *gocql.Session, p *cqlproxy.Proxy, keyspace string) {
	t.Helper()
	table := newTable(t, func(q string) error { return s.Query(q).Exec() }, keyspace)
	var fate cqlproxy.Request
	done := make(chan struct{})
	p.Decide(cqlproxy.Once(func(r cqlproxy.Request) bool {
		fate = r
		return r.Conditional()
	}, cqlproxy.Swallow().Then(func() { close(done) })))
	insert := "INSERT INTO " + table + " (p, v) VALUES (?, ?) IF NOT EXISTS"
	if applied, err := s.Query(insert, 1, "swallowed").MapScanCAS(map[string]any{}); err == nil {
		t.Fatalf("an answer came: %v", applied)
	}
	within(t, done)
	p.Decide(cqlproxy.PassAll)
	if fate.Op != frame.OpExecute || !slices.Equal(fate.Statements, []string{insert}) {
		t.Errorf("the rule was asked about %v", fate)
	}
	var v string
	err := s.Query("SELECT v FROM " + table + " WHERE p=1").Consistency(gocql.Consistency(gocql.LocalSerial)).Scan(&v)
	if err != nil || v != "swallowed" {
		t.Errorf("read %q, %v", v, err)
	}
}

// newTable makes a keyspace and a table; the keyspace goes with the test.
func newTable(t *testing.T, exec func(string) error, keyspace string) string {
	t.Helper()
	keyspace = fmt.Sprintf("belfry_%s_%d", keyspace, time.Now().UnixNano())
	for _, q := range []string{
		"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
		"CREATE TABLE " + keyspace + ".t (p int PRIMARY KEY, v text)",
	} {
		if err := exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	t.Cleanup(func() {
		if err := exec("DROP KEYSPACE " + keyspace); err != nil {
			t.Errorf("drop: %v", err)
		}
	})
	return keyspace + ".t"
}

// Frames of the real server, sent by hand: a dropped write is not there, a
// swallowed one is, and a cut connection can be replaced.
func TestDatabase(t *testing.T) {
	db := cassandra.Start(t, 1)
	p := cqlproxy.Start(t, db.Hosts()[0])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(q string) error {
		// not of the test's context: the clean-up comes after that
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c, err := frame.Dial(ctx, p.Addr())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do(ctx, frame.Query(q, frame.LocalQuorum))
		return err
	}
	table := newTable(t, do, "raw")
	for i, a := range []cqlproxy.Action{cqlproxy.Drop(), cqlproxy.Swallow(), cqlproxy.Cut()} {
		lose(ctx, t, p, a, fmt.Sprintf("INSERT INTO %s (p, v) VALUES (%d, 'x') IF NOT EXISTS", table, i))
		applied := rows(ctx, t, p, fmt.Sprintf("SELECT p FROM %s WHERE p=%d", table, i)) == 1
		if want := i > 0; applied != want {
			t.Errorf("action %d: applied %v, want %v", i, applied, want)
		}
	}
}

// lose sends a statement whose answer must not come.
func lose(ctx context.Context, t *testing.T, p *cqlproxy.Proxy, a cqlproxy.Action, statement string) {
	t.Helper()
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	p.Decide(cqlproxy.Once(cqlproxy.Request.Conditional, a.Then(giveUp)))
	c, err := frame.Dial(ctx, p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(ctx, frame.Query(statement, frame.LocalQuorum)); err == nil {
		t.Error("an answer came")
	}
}

// rows counts the rows of a result: the last number of its body's head, when
// each row is one int.
func rows(ctx context.Context, t *testing.T, p *cqlproxy.Proxy, query string) int {
	t.Helper()
	c, err := frame.Dial(ctx, p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Do(ctx, frame.Query(query, frame.LocalSerial))
	if err != nil {
		t.Fatal(err)
	}
	row := []byte{0, 0, 0, 1, 0, 0, 0, 4} // one row, and its int is four bytes long
	if n := len(a.Body); n >= 12 && string(a.Body[n-12:n-4]) == string(row) {
		return 1
	}
	return 0
}
