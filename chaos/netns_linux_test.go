package chaos

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// testNetwork has so many hosts, and ends with the test.
func testNetwork(t *testing.T, hosts int) (*Network, []*Host) {
	t.Helper()
	n, err := NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	for range hosts {
		if _, err := n.Join("host"); err != nil {
			t.Fatal(err)
		}
	}
	return n, n.hosts
}

// TestNetworkCuts: a cut drops what it says and nothing else, without a word to
// the sender, and ends with Heal.
func TestNetworkCuts(t *testing.T) {
	n, h := testNetwork(t, 3)
	sockets := make([]*net.UDPConn, len(h))
	for i := range h {
		if err := h[i].Do(func() (err error) {
			sockets[i], err = net.ListenUDP("udp", &net.UDPAddr{IP: h[i].IP, Port: 4000})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer sockets[i].Close()
	}
	reach := func(when string, want [3][3]bool) {
		t.Helper()
		for from := range h {
			for to := range h {
				if from == to {
					continue
				}
				text := []byte(when)
				if _, err := sockets[from].WriteTo(text, sockets[to].LocalAddr()); err != nil {
					t.Errorf("%s: %d is told of the cut to %d: %v", when, from, to, err)
				}
				wait := 50 * time.Millisecond // what is dropped is not late: nothing is slow here
				if want[from][to] {
					wait = 10 * time.Second
				}
				_ = sockets[to].SetReadDeadline(time.Now().Add(wait))
				_, _, err := sockets[to].ReadFrom(make([]byte, 100))
				if (err == nil) != want[from][to] {
					t.Errorf("%s: from %d to %d: %v", when, from, to, err)
				}
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	all := [3][3]bool{{true, true, true}, {true, true, true}, {true, true, true}}
	reach("whole", all)
	must(n.CutOneWay(h[0], h[1]))
	reach("one way", [3][3]bool{{true, false, true}, {true, true, true}, {true, true, true}})
	must(n.Heal())
	must(n.Cut(h[0], h[1], h[2]))
	reach("one alone", [3][3]bool{{true, false, false}, {false, true, true}, {false, true, true}})
	must(n.Heal())
	reach("healed", all)
}

// TestNetworkRelays: a service on this machine is reached at its own address
// from the hosts, but not across a cut, and a host is reached from here in spite
// of one.
func TestNetworkRelays(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n, h := testNetwork(t, 2)
	defer n.Close()
	service, addr := echo(t, "127.77.7.7:0", net.Listen)
	defer service.Close()
	if err := h[1].Have(net.ParseIP("127.77.7.7")); err != nil {
		t.Fatal(err)
	}
	if at, err := h[1].Serve(addr); err != nil || at != addr {
		t.Fatalf("served at %s, %v", at, err)
	}
	inside, at := echo(t, "127.0.0.1:0", func(network, addr string) (net.Listener, error) { return h[0].listen(addr)() })
	defer inside.Close()
	if err := h[0].Expose(at); err != nil {
		t.Fatal(err)
	}
	ask := func(dial dial, wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(wait))
		if _, err = c.Write([]byte("x")); err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		return err
	}
	if err := ask(h[0].dial(addr), 10*time.Second); err != nil {
		t.Errorf("the service is not reached: %v", err)
	}
	if err := n.Cut(h[0], h[1]); err != nil {
		t.Fatal(err)
	}
	if err := ask(h[0].dial(addr), 100*time.Millisecond); err == nil {
		t.Error("the service is reached across a cut")
	}
	if err := ask(here(at), 10*time.Second); err != nil {
		t.Errorf("the host is not reached: %v", err)
	}
}

// echo listens on a free port and says everything again.
func echo(t *testing.T, at string, listen func(network, addr string) (net.Listener, error)) (net.Listener, string) {
	t.Helper()
	l, err := listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { pipe(c, c); _ = c.Close() }()
		}
	}()
	return l, l.Addr().String()
}
