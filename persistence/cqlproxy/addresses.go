package cqlproxy

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Last numbers of the addresses that proxies of loopback servers have.
const firstProxy, lastProxy = 100, 250

// listen opens a port. The proxy of a server on 127.a.b.n is on 127.a.b.m with
// the server's port, so that a driver tells nodes and proxies apart by address,
// as it would real machines; the proxy of any other is on 127.0.0.1.
func listen(server *net.TCPAddr) (net.Listener, error) {
	ip := server.IP.To4()
	if ip == nil || ip[0] != 127 {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	for m := firstProxy; m <= lastProxy; m++ {
		addr := fmt.Sprintf("127.%d.%d.%d:%d", ip[1], ip[2], m, server.Port)
		l, err := net.Listen("tcp", addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, errors.New("no free address beside the server")
}
