package execution

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// check stops a test when an invariant of the pool does not hold.
func (p *pool) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for place, all := range p.kept {
		n += len(all)
		for i := 1; i < len(all); i++ {
			if all[i].used.Before(all[i-1].used) {
				t.Fatalf("%s: out of order", place)
			}
		}
	}
	if n != p.count || n > p.limit {
		t.Fatalf("%d kept, %d counted, at most %d", n, p.count, p.limit)
	}
}

// piped is a pool whose connections lead nowhere.
func piped(t *testing.T, limit int) (p *pool, dial func(place string) *conn) {
	p = newPool(NewGuard(job.DevPolicy(), nil), nil, limit)
	p.plain = func(context.Context, string, string) (net.Conn, error) {
		ours, _ := net.Pipe()
		return ours, nil
	}
	return p, func(key string) *conn {
		c, err := p.dial(t.Context(), &place{plain: true, key: key})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func closed(c *conn) bool { return c.SetDeadline(time.Time{}) != nil }

func TestUnusedConnectionsExpire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, dial := piped(t, 10)
		old, young := dial("a"), dial("a")
		p.keep(old)
		time.Sleep(idleTimeout * 2 / 3) // of the bubble's clock
		p.keep(young)
		p.check(t)
		time.Sleep(idleTimeout / 2)
		if p.check(t); !closed(old) || closed(young) || p.count != 1 {
			t.Errorf("old closed: %v, young closed: %v, %d kept", closed(old), closed(young), p.count)
		}
		time.Sleep(idleTimeout)
		if p.check(t); !closed(young) || len(p.kept) != 0 || p.sweep != nil {
			t.Errorf("young closed: %v, %d places kept", closed(young), len(p.kept))
		}
	})
}

func TestConnectionsOfOnePlaceMakeRoomForOthers(t *testing.T) {
	p, dial := piped(t, 3)
	defer p.close()
	var olds []*conn
	for range 3 {
		c := dial("a")
		p.keep(c)
		olds = append(olds, c)
	}
	p.keep(dial("b"))
	p.check(t)
	if p.count != 1 || !closed(olds[0]) || p.take(&place{key: "a"}) != nil || p.take(&place{key: "b"}) == nil {
		t.Errorf("%d kept: %v", p.count, p.kept)
	}
	p.check(t)
}

func TestAClosedPoolKeepsNothing(t *testing.T) {
	p, dial := piped(t, 3)
	kept, out := dial("a"), dial("a")
	p.keep(kept)
	p.close()
	p.keep(out)
	if p.check(t); !closed(kept) || !closed(out) || p.count != 0 {
		t.Errorf("%d kept", p.count)
	}
}

// What a target does to a connection between two calls.
func TestAKeptConnectionIsUsedOnlyInPeace(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(net.Conn)
		conns int
	}{
		"nothing":     {func(net.Conn) {}, 1},
		"closes":      {func(c net.Conn) { _ = c.Close() }, 2},
		"half closes": {func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }, 2},
		"resets":      {func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, 2},
		"speaks":      {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			open, conns := make(chan net.Conn, 2), 0
			s := raw(t, func(n int, conn net.Conn) bool {
				if n == 1 {
					conns++
				}
				_, _ = io.WriteString(conn, ok)
				open <- conn
				return true
			})
			client := target(t)
			for range 2 {
				if r := client.Deliver(t.Context(), delivery(s.url), 1, unbroken); r.GetOutcome() != succeededOutcome {
					t.Fatalf("result %v", r)
				}
				conn := <-open
				c.then(conn)
				settled(t, client, name)
			}
			if conns != c.conns {
				t.Errorf("%d connections, want %d", conns, c.conns)
			}
		})
	}
}

// settled waits until what the target did has arrived.
func settled(t *testing.T, client *Target, name string) {
	t.Helper()
	if name == "nothing" {
		return
	}
	for _, all := range client.pool.kept {
		for _, c := range all {
			raw, err := c.under.Conn.(syscall.Conn).SyscallConn()
			for err == nil && quiet(raw) {
				<-time.After(time.Millisecond)
			}
		}
	}
}

func TestConnectionsWithTLSAreKept(t *testing.T) {
	conns := make(chan net.Conn, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 3000)) }))
	s.Config.ConnState = func(c net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns <- c
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	client := target(t, func(c *TargetConfig) {
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		c.TLS = &tls.Config{RootCAs: pool}
	})
	for range 5 {
		if r := client.Deliver(t.Context(), delivery(s.URL), 1, unbroken); r.GetOutcome() != succeededOutcome {
			t.Fatalf("result %v", r)
		}
	}
	if n := len(conns); n != 1 {
		t.Errorf("%d connections for 5 calls", n)
	}
}

// A connection is not kept when its target says so, or its answer had no end
// of its own, or the call was cut.
func TestAConnectionIsKeptOnlyAfterAWholeAnswer(t *testing.T) {
	for answer, kept := range map[string]int{
		ok:                                      1,
		"HTTP/1.1 204 No Content\r\n\r\n":       1,
		"HTTP/1.1 103 Early Hints\r\n\r\n" + ok: 1,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n": 1,
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                           0,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok":      0,
		ok + "more": 0,
		"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000): 0,
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                         0,
	} {
		s := raw(t, func(_ int, conn net.Conn) bool { _, _ = io.WriteString(conn, answer); return true })
		client := target(t)
		if r := client.Deliver(t.Context(), delivery(s.url), 1, unbroken); r.GetStatusCode() == 0 {
			t.Errorf("%.60q: %v", answer, r)
		}
		if client.pool.count != kept {
			t.Errorf("%.60q: %d kept, want %d", answer, client.pool.count, kept)
		}
	}
}
