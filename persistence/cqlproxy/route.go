package cqlproxy

import (
	"context"
	"fmt"
	"net"
)

// Dialer dials proxies in place of their servers. It is a Dialer of gocql.
type Dialer struct{ routes routes }

// Via makes a Dialer of the proxies of all nodes.
func Via(proxies ...*Proxy) Dialer { return Dialer{routesOf(proxies)} }

// DialContext dials the proxy of a server. Any other address is an error, so a
// driver with this Dialer cannot pass the proxies by.
func (d Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := net.ResolveTCPAddr(network, addr)
	if err != nil {
		return nil, err
	}
	proxy, ok := d.routes.find(*server)
	if !ok {
		return nil, fmt.Errorf("no proxy stands for %s", addr)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, proxy.String())
}

// Translator leads a driver from the servers' addresses to their proxies. It is
// an AddressTranslator of gocql.
type Translator struct{ routes routes }

// Translate makes a Translator of the proxies of all nodes.
func Translate(proxies ...*Proxy) Translator { return Translator{routesOf(proxies)} }

// Translate answers with the proxy of a server. An address that no proxy stands
// for stays as it is.
func (t Translator) Translate(addr net.IP, port int) (net.IP, int) {
	proxy, ok := t.routes.find(net.TCPAddr{IP: addr, Port: port})
	if !ok {
		return addr, port
	}
	return proxy.IP, proxy.Port
}

// routes lead from servers to proxies.
type routes []route

type route struct {
	server, proxy net.TCPAddr
}

func routesOf(proxies []*Proxy) routes {
	var all routes
	for _, p := range proxies {
		all = append(all, route{server: *p.server, proxy: *p.listener.Addr().(*net.TCPAddr)})
	}
	return all
}

// find goes by address and port, else by address alone: a driver that follows a
// server to another of its ports stays on the proxy.
func (all routes) find(server net.TCPAddr) (proxy net.TCPAddr, ok bool) {
	for _, r := range all {
		if r.server.IP.Equal(server.IP) && r.server.Port == server.Port {
			return r.proxy, true
		}
	}
	for _, r := range all {
		if r.server.IP.Equal(server.IP) {
			return r.proxy, true
		}
	}
	return net.TCPAddr{}, false
}
