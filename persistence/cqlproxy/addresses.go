package cqlproxy

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Last numbers of the addresses that proxies of loopback servers have.
const firstProxy, lastProxy = 100, 250

// listen opens a port. The proxy of a server on 127.a.b.n is on 127.a.b.m with
// the server's port, so that a driver tells nodes and proxies apart by address,
// as it would real machines; the proxy of any other is on 127.0.0.1.
func listen(target string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(host).To4()
	if ip == nil || ip[0] != 127 {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	for m := firstProxy; m <= lastProxy; m++ {
		addr := net.JoinHostPort(fmt.Sprintf("127.%d.%d.%d", ip[1], ip[2], m), port)
		l, err := net.Listen("tcp", addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, errors.New("no free address beside the server")
}

// Split is a proxy's address without its port, as a driver wants it.
func Split(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// Translator leads a driver from the servers' addresses to their proxies. It is
// an AddressTranslator of gocql.
type Translator struct{ routes []route }

type route struct {
	from, to net.TCPAddr
}

// Translate makes a Translator of the proxies of all nodes.
func Translate(proxies ...*Proxy) Translator {
	var t Translator
	for _, p := range proxies {
		t.routes = append(t.routes, route{from: tcpAddr(p.target), to: tcpAddr(p.Addr())})
	}
	return t
}

// Translate answers with the proxy of a server, by address and port, else by
// address alone: a driver that follows a server to another of its ports stays on
// the proxy. An address that no proxy stands for stays as it is.
func (t Translator) Translate(addr net.IP, port int) (net.IP, int) {
	for _, r := range t.routes {
		if r.from.IP.Equal(addr) && r.from.Port == port {
			return r.to.IP, r.to.Port
		}
	}
	for _, r := range t.routes {
		if r.from.IP.Equal(addr) {
			return r.to.IP, r.to.Port
		}
	}
	return addr, port
}

// tcpAddr reads host:port; a name stays without an address and leads nowhere.
func tcpAddr(hostPort string) net.TCPAddr {
	host, port, _ := net.SplitHostPort(hostPort)
	n, _ := strconv.Atoi(port)
	return net.TCPAddr{IP: net.ParseIP(host), Port: n}
}
