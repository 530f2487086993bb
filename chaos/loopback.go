package chaos

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
)

// Ports of everything that the harness starts; what differs is the address. None
// is of the range that the system gives out by itself.
const (
	apiPort    = "8380"
	gossipPort = "7946"
	actorPort  = "7947"
	claimPort  = "7000" // test databases claim their networks by it, too
)

// loopback is a network of addresses of this machine that nobody else uses.
type loopback struct {
	prefix string
	claim  net.Listener
	given  int // addresses given out
}

// newLoopback takes the first free network from the process's own place on, until
// the test has ended: it belongs to who holds the claim, among tests of this
// process and of others.
func newLoopback(t testing.TB) *loopback {
	t.Helper()
	const networks = 200 * 256
	var err error
	for try := range networks {
		n := (os.Getpid() + try) % networks
		l := &loopback{prefix: fmt.Sprintf("127.%d.%d.", 1+n/256, n%256)}
		if l.claim, err = net.Listen("tcp", net.JoinHostPort(l.prefix+"254", claimPort)); err == nil {
			t.Cleanup(func() { _ = l.claim.Close() })
			return l
		}
	}
	t.Fatalf("no free network of loopback addresses: %v", err)
	return nil
}

// host is the next address of the network.
func (l *loopback) host() string {
	l.given++
	return l.prefix + strconv.Itoa(l.given)
}

// newHost is an address that nobody else uses until the test has ended.
func newHost(t testing.TB) string {
	t.Helper()
	return newLoopback(t).host()
}
