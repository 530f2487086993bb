package cassandra

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Ports of every node; what differs is the address.
const (
	clientPort = 9042
	peerPort   = 7000
)

// addresses are those of one cluster: node i (from 0) has <net>.<i+1>.
type addresses struct {
	net   string       // three numbers: 127.81.7
	claim net.Listener // nobody else has them as long as it is open
}

// networks is how many there are to draw from: 127.1.0 to 127.254.255.
const networks = 254 * 256

// claimAddresses takes the first free network from the process's own place on.
func claimAddresses(nodes int) (*addresses, error) {
	var last error
	for try := range networks {
		n := (os.Getpid() + try) % networks
		a := &addresses{net: fmt.Sprintf("127.%d.%d", 1+n/256, n%256)}
		last = a.take(nodes)
		if last == nil {
			return a, nil
		}
		if !errors.Is(last, syscall.EADDRINUSE) {
			break // no other network would be better
		}
	}
	return nil, fmt.Errorf("no free loopback addresses for the test database: %w", last)
}

// fixedAddresses takes a network that somebody chose.
func fixedAddresses(network string, nodes int) (*addresses, error) {
	a := &addresses{net: network}
	if err := a.take(nodes); err != nil {
		return nil, fmt.Errorf("the addresses of the test database are taken: %w", err)
	}
	return a, nil
}

// take claims the network, and looks whether its ports are free.
func (a *addresses) take(nodes int) error {
	claim, err := net.Listen("tcp", net.JoinHostPort(a.net+".254", strconv.Itoa(peerPort)))
	if err != nil {
		return err
	}
	for i := range nodes {
		for _, port := range []int{clientPort, peerPort} {
			l, err := net.Listen("tcp", net.JoinHostPort(a.of(i), strconv.Itoa(port)))
			if err != nil {
				claim.Close()
				return err
			}
			l.Close()
		}
	}
	a.claim = claim
	return nil
}

func (a *addresses) of(i int) string { return a.net + "." + strconv.Itoa(i+1) }

func (a *addresses) release() { a.claim.Close() }
