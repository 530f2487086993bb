package cassandra

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
)

// Clusters of one process, and of processes whose place is the same, have
// networks of their own.
func TestClaims(t *testing.T) {
	seen := map[string]bool{}
	for range 4 {
		a, err := claimAddresses(3)
		if err != nil {
			t.Fatal(err)
		}
		defer a.release()
		if seen[a.net] || !strings.HasPrefix(a.of(2), "127.") || !strings.HasSuffix(a.of(2), ".3") {
			t.Errorf("given %s, after %v", a.of(2), seen)
		}
		seen[a.net] = true
	}
}

// A network with a port in use is not taken, and can be once it is free.
func TestFixedAddresses(t *testing.T) {
	a, err := claimAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	network := a.net
	a.release()
	l, err := net.Listen("tcp", network+".1:9042")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fixedAddresses(network, 1); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port is in use: %v", err)
	}
	l.Close()
	again, err := fixedAddresses(network, 1)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}
