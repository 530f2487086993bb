package execution

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Guard connects to targets, and only to addresses that the policy allows. The
// address that is judged is the one that is connected: a name is resolved
// here, all of its addresses must pass, and each is judged once more by the
// socket's Control function, so there is no moment in which a name could come
// to mean something else.
type Guard struct {
	policy   job.AddressPolicy
	resolver *net.Resolver
}

// NewGuard makes a guard; a nil resolver is the system's.
func NewGuard(policy job.AddressPolicy, resolver *net.Resolver) *Guard {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &Guard{policy: policy, resolver: resolver}
}

// OwnAddrs expands listen addresses for AddressPolicy.Deny: one without a host
// (0.0.0.0, [::]) stands for every address of this machine.
func OwnAddrs(listen ...netip.AddrPort) ([]netip.AddrPort, error) {
	var own []netip.AddrPort
	for _, l := range listen {
		own = append(own, l)
		if !l.Addr().IsUnspecified() {
			continue
		}
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of this machine: %w", err)
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					own = append(own, netip.AddrPortFrom(ip.Unmap(), l.Port()))
				}
			}
		}
	}
	return own, nil
}

const (
	dialTimeout  = 10 * time.Second // for one address
	keepAliveGap = 15 * time.Second
)

// dialer connects for http (plain) or https.
func (g *Guard) dialer(plain bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := g.netDialer(plain)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		addrs, err := g.resolve(ctx, address)
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if err := g.check(a, plain); err != nil {
				return nil, err
			}
		}
		return dialFirst(ctx, d, network, addrs)
	}
}

// netDialer judges the address of every socket before it is connected.
func (g *Guard) netDialer(plain bool) *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout, KeepAlive: keepAliveGap,
		Control: func(_, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %w", job.ErrAddress, err)
			}
			return g.check(a, plain)
		},
	}
}

// check judges an address. Without TLS only those allowed for it pass.
func (g *Guard) check(a netip.AddrPort, plain bool) error {
	if err := g.policy.CheckAddr(a); err != nil {
		return err
	}
	if plain && !g.policy.AllowsPlain(a.Addr()) {
		return fmt.Errorf("%w: %s may be called by https only; an operator can allow its network with --allow-targets", job.ErrAddress, a.Addr())
	}
	return nil
}

// resolve is what an address stands for, in the order to try.
func (g *Guard) resolve(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), uint16(n))}, nil
	}
	found, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		var dns *net.DNSError
		if errors.As(err, &dns) {
			return nil, fmt.Errorf("lookup %s: %s", host, dns.Err) // without the address of our name server
		}
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(found))
	for i, a := range found {
		addrs[i] = netip.AddrPortFrom(a.Unmap(), uint16(n))
	}
	return addrs, nil
}

// dialFirst connects to the first address that answers. Each gets its share of
// the time, so that one that is silent does not use up all of it.
func dialFirst(ctx context.Context, d *net.Dialer, network string, addrs []netip.AddrPort) (net.Conn, error) {
	err := errors.New("the name has no address")
	for i, a := range addrs {
		share := dialTimeout
		if deadline, ok := ctx.Deadline(); ok {
			share = max(time.Until(deadline)/time.Duration(len(addrs)-i), time.Millisecond)
		}
		var conn net.Conn
		one, cancel := context.WithTimeout(ctx, share)
		conn, err = d.DialContext(one, network, a.String())
		cancel()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}
