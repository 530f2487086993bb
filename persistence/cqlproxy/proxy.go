package cqlproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// Proxy passes the connections of a driver on to one server.
type Proxy struct {
	target   string
	server   *net.TCPAddr // of target
	listener net.Listener
	gate     gate
	prepared prepared
	live     context.Context // ends with Close
	end      context.CancelFunc
	work     sync.WaitGroup // every goroutine

	judging sync.Mutex // one request at a time
	seen    int        // requests judged

	mu       sync.Mutex
	rule     Rule
	accepted int
	conns    map[*conn]bool // Invariant: those whose goroutines run
	fault    error          // the first thing that the proxy could not read
}

// Start opens a proxy in front of a server for a test, which closes it at its
// end and fails if the proxy met a frame that it could not read.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Open opens a proxy in front of a server (host:port).
func Open(target string) (*Proxy, error) {
	server, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		return nil, fmt.Errorf("proxy of %s: %w", target, err)
	}
	l, err := listen(server)
	if err != nil {
		return nil, fmt.Errorf("proxy of %s: %w", target, err)
	}
	p := &Proxy{target: target, server: server, listener: l, rule: PassAll, conns: map[*conn]bool{}}
	p.live, p.end = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where the driver connects, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Host is Addr without the port, as gocql wants its contact points. In front of a
// server on a loopback address the port is the server's.
func (p *Proxy) Host() string { return p.listener.Addr().(*net.TCPAddr).IP.String() }

// Target is the server behind.
func (p *Proxy) Target() string { return p.target }

// Decide sets the rule for the requests from now on. The rule must not call the
// proxy's Close.
func (p *Proxy) Decide(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = r
}

// Pause holds everything in both directions. Connections stay open, new ones are
// accepted and stay silent: the network that drops all packets.
func (p *Proxy) Pause() { p.gate.shut() }

// Resume lets everything through that was held.
func (p *Proxy) Resume() { p.gate.lift() }

// CloseAll breaks all connections. New ones are welcome.
func (p *Proxy) CloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// Conns is how many connections there are.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Requests is how many requests with statements the proxy has seen.
func (p *Proxy) Requests() int {
	p.judging.Lock()
	defer p.judging.Unlock()
	return p.seen
}

// Close ends the proxy and waits for its goroutines. It answers with the first
// frame that could not be read, if there was one.
func (p *Proxy) Close() error {
	p.end()
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.CloseAll()
	p.work.Wait()
	return errors.Join(err, p.fault)
}

func (p *Proxy) accept() {
	for {
		nc, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.add(nc)
	}
}

// add begins with a connection, unless the proxy has ended.
func (p *Proxy) add(nc net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live.Err() != nil {
		nc.Close()
		return
	}
	p.accepted++
	c := newConn(p, p.accepted, nc)
	p.conns[c] = true
	p.work.Go(func() {
		defer p.remove(c)
		c.run()
	})
}

func (p *Proxy) remove(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// judge asks the rule. r has everything but its number.
func (p *Proxy) judge(r Request) Action {
	p.judging.Lock()
	defer p.judging.Unlock()
	p.seen++
	r.N = p.seen
	p.mu.Lock()
	rule := p.rule
	p.mu.Unlock()
	return rule(r)
}

// blame remembers what could not be read.
func (p *Proxy) blame(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == nil {
		p.fault = fmt.Errorf("proxy of %s: %w", p.target, err)
	}
}
