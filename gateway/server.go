package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Timeouts and sizes of the server.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second // streams move their own deadline
	writeTimeout      = DefaultWrite
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10

	// DefaultConnsPerClient is how many connections one client address may have.
	DefaultConnsPerClient = 1024
)

// NewServer is an http.Server with the limits that the API promises: slow
// headers, slow bodies and idle connections end.
func NewServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// CheckListen says whether the API may listen on an address. Off loopback,
// whoever reaches the port may do everything, so that has to be asked for.
func CheckListen(addr string, insecureNoAuth bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w: write host:port, such as 127.0.0.1:8380", addr, err)
	}
	if insecureNoAuth || isLoopback(host) {
		return nil
	}
	return fmt.Errorf("listen address %q is not loopback, and this version has no authentication: "+
		"everybody who reaches the port could read and change every job. "+
		"Listen on 127.0.0.1 or [::1] and put an authenticating proxy in front, "+
		"or say --insecure-no-auth if the network itself keeps others out", addr)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// LimitConns is a listener that closes what one client address opens above n
// connections. Loopback is not counted. n < 1: DefaultConnsPerClient.
func LimitConns(l net.Listener, n int) net.Listener {
	if n < 1 {
		n = DefaultConnsPerClient
	}
	return &connLimiter{Listener: l, max: n, open: map[netip.Addr]int{}}
}

type connLimiter struct {
	net.Listener
	max  int
	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept waits for a connection of a client that has room for one more.
func (l *connLimiter) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, ok := clientAddr(conn.RemoteAddr().String())
		if !ok || addr.IsLoopback() {
			return conn, nil
		}
		if l.take(addr) {
			return &countedConn{Conn: conn, release: func() { l.release(addr) }}, nil
		}
		_ = conn.Close()
	}
}

func (l *connLimiter) take(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[addr] >= l.max {
		return false
	}
	l.open[addr]++
	return true
}

func (l *connLimiter) release(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[addr]--; l.open[addr] <= 0 {
		delete(l.open, addr)
	}
}

type countedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close gives the place back, once.
func (c *countedConn) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}

// clientAddr is the address of host:port, an IPv4 address in IPv6 form undone.
func clientAddr(hostPort string) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(hostPort)
	return ap.Addr().Unmap(), err == nil
}
