package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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
//
// A loopback address other than 127.0.0.1 is one of the network's, too, where a
// host has it: drivers learn from a database where it is, and there it has to be.
type Network struct {
	router namespace
	hosts  []*Host
	relays *relays
	mu     sync.Mutex
	cuts   []*netlink.Rule
}

// Host is a machine of a Network.
type Host struct {
	Name string
	IP   net.IP

	addrs   []net.IP // and loopback addresses that it has for the others
	network *Network
	space   namespace
}

// namespace is a network namespace, and what configures it.
type namespace struct {
	fd   netns.NsHandle
	link *netlink.Handle
}

// NewNetwork makes a network with a router and nothing else. The error tells
// which rights it takes.
func NewNetwork() (*Network, error) {
	n := &Network{relays: newRelays()}
	var err error
	if n.router, err = newNamespace(); err != nil {
		return nil, err
	}
	if err = n.router.set("ip_forward"); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
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
	ip := net.IPv4(10, 200, byte(i), 2)
	h := &Host{Name: name, IP: ip, addrs: []net.IP{ip}, network: n}
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
	if err := n.router.link.LinkAdd(cable); err != nil {
		return fmt.Errorf("link a network namespace to another: %w", err)
	}
	if err := errors.Join(n.router.up(name, gateway, 24), h.space.up("eth0", h.IP, 24)); err != nil {
		return err
	}
	return h.space.link.RouteAdd(&netlink.Route{Gw: gateway})
}

// Cut drops everything between a host and others, both ways, until Heal.
func (n *Network) Cut(a *Host, from ...*Host) error {
	var errs []error
	for _, b := range from {
		errs = append(errs, n.CutOneWay(a, b), n.CutOneWay(b, a))
	}
	return errors.Join(errs...)
}

// CutOneWay drops what a host sends to others, until Heal.
func (n *Network) CutOneWay(from *Host, to ...*Host) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range to {
		for _, src := range from.addrs {
			for _, dst := range h.addrs {
				r := netlink.NewRule()
				r.Family, r.Type, r.Src, r.Dst = unix.AF_INET, unix.RTN_BLACKHOLE, only(src), only(dst)
				if err := n.router.link.RuleAdd(r); err != nil {
					return fmt.Errorf("cut %s off from %s: %w", h.Name, from.Name, err)
				}
				n.cuts = append(n.cuts, r)
			}
		}
	}
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

// Do runs f with its thread in the host's namespace: processes that f starts
// itself, and sockets that it opens, are there. A dial has to name an address,
// and what f does in other goroutines is done elsewhere.
func (h *Host) Do(f func() error) error { return h.space.do(f) }

// Serve makes something that listens on this machine's loopback part of a host:
// the others reach it at the address that is returned, and if the host has the
// loopback address (Have), at that one.
func (h *Host) Serve(addr string) (string, error) {
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	at := net.JoinHostPort(h.IP.String(), port)
	for _, have := range h.addrs[1:] {
		if have.String() == ip {
			at = addr
		}
	}
	return at, h.network.relays.start(h.listen(at), here(addr))
}

// Have gives a host a loopback address, and the others the way to it.
func (h *Host) Have(ip net.IP) error {
	h.addrs = append(h.addrs, ip)
	return errors.Join(
		h.space.up("lo", ip, 32),
		h.network.router.link.RouteAdd(&netlink.Route{Dst: only(ip), Gw: h.IP}),
	)
}

// Pretend makes something that listens on this machine's loopback seem to be at a
// loopback address, to this host alone.
func (h *Host) Pretend(addr netip.AddrPort, behind string) error {
	return errors.Join(
		h.space.up("lo", addr.Addr().AsSlice(), 32),
		h.network.relays.start(h.listen(addr.String()), here(behind)),
	)
}

// Expose gives the host a loopback address of its own, and makes its port
// reachable at the same one of this machine, past every cut: that is how the test
// sees a node that is cut off.
func (h *Host) Expose(addr string) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	if err := h.space.up("lo", at.Addr().AsSlice(), 32); err != nil {
		return err
	}
	return h.network.relays.start(func() (net.Listener, error) { return net.Listen("tcp", addr) }, h.dial(addr))
}

// dialer is as patient as a kernel that nobody answers, and no more than a test.
var dialer = net.Dialer{Timeout: 10 * time.Second}

// dial makes the far end of a relay. It ends with the context.
type dial func(context.Context) (net.Conn, error)

func here(addr string) dial {
	return func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
}

func (h *Host) listen(addr string) func() (net.Listener, error) {
	return func() (l net.Listener, err error) {
		err = h.Do(func() error {
			l, err = net.Listen("tcp", addr)
			return err
		})
		return l, err
	}
}

func (h *Host) dial(addr string) dial {
	return func(ctx context.Context) (c net.Conn, err error) {
		err = h.Do(func() error {
			c, err = here(addr)(ctx)
			return err
		})
		return c, err
	}
}

// newNamespace makes a namespace, and stays where it was.
func newNamespace() (s namespace, err error) {
	err = visit(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() error {
		if s.fd, err = netns.Get(); err != nil {
			return err
		}
		if s.link, err = netlink.NewHandleAt(s.fd, unix.NETLINK_ROUTE); err != nil {
			return err
		}
		return s.loopback()
	})
	if err != nil {
		return s, fmt.Errorf("make a network namespace, which takes root with CAP_SYS_ADMIN and CAP_NET_ADMIN: %w", err)
	}
	return s, nil
}

func (s namespace) do(f func() error) error {
	return visit(func() error { return netns.Set(s.fd) }, f)
}

// visit runs f on a thread that has entered another namespace, and goes back.
func visit(enter, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	defer home.Close()
	if err := enter(); err != nil {
		return err
	}
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(fmt.Sprintf("a thread is lost in another network namespace: %v", err))
		}
	}()
	return f()
}

// loopback turns the loopback on with one address: the others of 127.0.0.0/8 may
// be anywhere.
func (s namespace) loopback() error {
	if err := s.set("conf/all/route_localnet"); err != nil {
		return err
	}
	if err := s.up("lo", net.IPv4(127, 0, 0, 1), 32); err != nil {
		return err
	}
	lo, err := s.link.LinkByName("lo")
	if err != nil {
		return err
	}
	return s.link.AddrDel(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}})
}

// set turns a setting of IPv4 on.
func (s namespace) set(name string) error {
	return s.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/"+name, []byte("1"), 0) })
}

// up gives a link an address, and turns it on.
func (s namespace) up(name string, ip net.IP, bits int) error {
	l, err := s.link.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := s.link.LinkSetUp(l); err != nil {
		return err
	}
	if err := s.link.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, 32)}}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("address %s of link %s: %w", ip, name, err)
	}
	return nil
}

func (s *namespace) close() {
	s.link.Close()
	_ = s.fd.Close()
}

func only(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)} }

// relays carry connections from one namespace to another.
type relays struct {
	ctx     context.Context // of every dial
	end     context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	sockets map[io.Closer]bool
}

func newRelays() *relays {
	r := &relays{sockets: map[io.Closer]bool{}}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

// start listens, and joins each connection to one that dial makes.
func (r *relays) start(listen func() (net.Listener, error), far dial) error {
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
			r.done.Go(func() { r.join(near, far) })
		}
	})
	return nil
}

// join copies both ways until both ends are closed.
func (r *relays) join(near net.Conn, dial dial) {
	defer r.drop(near)
	if !r.hold(near) {
		return
	}
	far, err := dial(r.ctx)
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
	if r.ctx.Err() != nil {
		_ = c.Close()
		return false
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
	r.end()
	for c := range r.sockets {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.done.Wait()
}
