package cql

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUnheard: the driver's connections end when nothing is acknowledged for as
// long as a request may take.
func TestUnheard(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := Config{Hosts: []string{l.Addr().String()}, Timeout: 1500 * time.Millisecond, ConnectTimeout: time.Second}.driver()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dialer.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	limit := 0
	if e := raw.Control(func(fd uintptr) { limit, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if limit != 1500 {
		t.Errorf("a connection that is not heard ends after %d ms", limit)
	}
}
