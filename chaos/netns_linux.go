package chaos

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Network is a small internet of the test's own: hosts in network namespaces
// around a router in one, 10.200.i.2 behind 10.200.i.1. Nothing of it is seen
// outside: the namespaces have no name, and each is gone, with its links, when
// the last process and the last descriptor in it are, however the test ends.
//
//	nodes   10.200.1.2 ──┐            ┌── 10.200.4.2   where the database seems to be
//	        10.200.2.2 ──┼── router ──┤
//	        10.200.3.2 ──┘            └── 10.200.5.2   where the targets seem to be
//
// A cut is a rule of the router: what one host sends to another is dropped
// without a word, as by a cable that is pulled. Connections stay open, and what
// was in their buffers arrives late, after the cut is healed.
type Network struct {
	router namespace
	hosts  []*Host
	relays relays
	mu     sync.Mutex
	cuts   []*netlink.Rule
}

// Host is a machine of a Network.
type Host struct {
	Name string
	IP   net.IP

	network *Network
	space   namespace
}

// namespace is a network namespace, and what configures it.
type namespace struct {
	fd   netns.NsHandle
	link *netlink.Handle
}

// NewNetwork makes a network with a router and nothing else. The error says
// which right is missing.
func NewNetwork() (*Network, error) {
	n := &Network{}
	var err error
	if n.router, err = newNamespace(); err != nil {
		return nil, err
	}
	return n, n.router.do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
}

// Close ends the relays. The network is gone when the processes in it are.
func (n *Network) Close() {
	n.relays.close()
	for _, h := range n.hosts {
		h.space.close()
	}
	n.router.close()
}

// Join adds a host, with a link to the router and a loopback of its own.
func (n *Network) Join(name string) (*Host, error) {
	i := len(n.hosts) + 1
	h := &Host{Name: name, IP: net.IPv4(10, 200, byte(i), 2), network: n}
	var err error
	if h.space, err = newNamespace(); err != nil {
		return nil, err
	}
	n.hosts = append(n.hosts, h)
	return h, n.plug(h, "host"+strconv.Itoa(i), net.IPv4(10, 200, byte(i), 1))
}

// plug puts a cable between the router and a host.
func (n *Network) plug(h *Host, name string, gateway net.IP) error {
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.space.fd)}
	return errors.Join(
		n.router.link.LinkAdd(cable),
		n.router.up(name, gateway),
		h.space.up("lo", nil),
		h.space.up("eth0", h.IP),
		h.space.link.RouteAdd(&netlink.Route{Gw: gateway}),
	)
}

// Cut drops everything between a host and others, both ways, until Heal.
func (n *Network) Cut(a *Host, from ...*Host) error {
	var errs []error
	for _, b := range from {
		errs = append(errs, n.CutOneWay(a, b), n.CutOneWay(b, a))
	}
	return errors.Join(errs...)
}

// CutOneWay drops what a host sends to another, until Heal.
func (n *Network) CutOneWay(from, to *Host) error {
	r := netlink.NewRule()
	r.Family, r.Type = unix.AF_INET, unix.RTN_BLACKHOLE
	r.Src, r.Dst = only(from.IP), only(to.IP)
	if err := n.router.link.RuleAdd(r); err != nil {
		return fmt.Errorf("cut %s off from %s: %w", to.Name, from.Name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts = append(n.cuts, r)
	return nil
}

// Heal ends every cut.
func (n *Network) Heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, r := range n.cuts {
		errs = append(errs, n.router.link.RuleDel(r))
	}
	n.cuts = nil
	return errors.Join(errs...)
}

// Do runs f on a thread in the host's namespace: processes that it starts, and
// sockets that it opens, are there. A dial has to name an IP address.
func (h *Host) Do(f func() error) error { return h.space.do(f) }

// Serve makes something that listens on this machine's loopback part of a host:
// clients on the other hosts reach it at the very same loopback address, which
// is a relay that takes the way through the network. Drivers may therefore ask
// a database where it is.
func (h *Host) Serve(addr string, clients ...*Host) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	at := net.JoinHostPort(h.IP.String(), port)
	if err := h.network.relays.start(h.listen(at), func() (net.Conn, error) { return net.DialTimeout("tcp", addr, dialFor) }); err != nil {
		return err
	}
	for _, c := range clients {
		if err := h.network.relays.start(c.listen(addr), c.dial(at)); err != nil {
			return err
		}
	}
	return nil
}

// Expose makes a loopback address of the host reachable at the same address of
// this machine, past every cut: that is how the test sees a node that is cut off.
func (h *Host) Expose(addr string) error {
	return h.network.relays.start(func() (net.Listener, error) { return net.Listen("tcp", addr) }, h.dial(addr))
}

const dialFor = 10 * time.Second

func (h *Host) listen(addr string) func() (net.Listener, error) {
	return func() (l net.Listener, err error) {
		err = h.Do(func() error {
			l, err = net.Listen("tcp", addr)
			return err
		})
		return l, err
	}
}

func (h *Host) dial(addr string) func() (net.Conn, error) {
	return func() (c net.Conn, err error) {
		err = h.Do(func() error {
			c, err = net.DialTimeout("tcp", addr, dialFor)
			return err
		})
		return c, err
	}
}

// newNamespace makes a namespace and leaves the thread where it was.
func newNamespace() (namespace, error) {
	var s namespace
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): unshare: %w", err)
		}
		if s.fd, err = netns.Get(); err != nil {
			return err
		}
		s.link, err = netlink.NewHandleAt(s.fd, unix.NETLINK_ROUTE)
		return err
	})
	return s, err
}

func (s namespace) do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(s.fd); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread that may change its namespace, and comes back to
// that of the process. A thread that cannot come back ends.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer home.Close()
		err = f()
		if back := netns.Set(home); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// up gives a link its address, if it is to have one, and turns it on.
func (s namespace) up(name string, ip net.IP) error {
	l, err := s.link.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if ip != nil {
		if err := s.link.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}); err != nil {
			return fmt.Errorf("address %s of link %s: %w", ip, name, err)
		}
	}
	return s.link.LinkSetUp(l)
}

func (s namespace) close() {
	s.link.Close()
	_ = s.fd.Close()
}

func only(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)} }

// relays carry connections from one namespace to another.
type relays struct {
	mu      sync.Mutex
	closed  bool
	sockets map[io.Closer]bool
	done    sync.WaitGroup
}

// start listens, and joins each connection to one that dial makes.
func (r *relays) start(listen func() (net.Listener, error), dial func() (net.Conn, error)) error {
	l, err := listen()
	if err != nil {
		return err
	}
	if !r.hold(l) {
		return net.ErrClosed
	}
	r.done.Go(func() {
		defer r.drop(l)
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			r.done.Go(func() { r.join(near, dial) })
		}
	})
	return nil
}

// join copies both ways until both ends are closed. A dial that is not answered
// ends with its caller's patience or its own.
func (r *relays) join(near net.Conn, dial func() (net.Conn, error)) {
	defer r.drop(near)
	if !r.hold(near) {
		return
	}
	far, err := dial()
	if err != nil {
		return
	}
	defer r.drop(far)
	if !r.hold(far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(near, far) })
	both.Go(func() { pipe(far, near) })
	both.Wait()
}

// pipe copies one way. An end is passed on as an end, an error as a reset.
func pipe(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite()
}

// hold remembers a socket for close; false: it is closed already.
func (r *relays) hold(c io.Closer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	if r.sockets == nil {
		r.sockets = map[io.Closer]bool{}
	}
	r.sockets[c] = true
	return true
}

func (r *relays) drop(c io.Closer) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sockets, c)
}

// close ends everything, and waits for it.
func (r *relays) close() {
	r.mu.Lock()
	r.closed = true
	for c := range r.sockets {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.done.Wait()
}
