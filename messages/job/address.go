package job

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
)

// MaxURL is the longest URL of a target.
const MaxURL = 2048

// AddressPolicy says which addresses a target may have. The zero value allows
// https to public addresses only. It is checked twice: when a job is
// registered, as far as the URL shows, and for every connection, with the
// address that is really connected (a name may resolve to anything, and to
// something else a second later).
type AddressPolicy struct {
	// Allow lists networks that may be called although they are not public,
	// and by plain http too. Set by --allow-targets.
	Allow []netip.Prefix
	// AllowPlainHTTP permits http:// also to public addresses.
	AllowPlainHTTP bool
	// Deny lists addresses that are never called, whatever Allow says: this
	// node's own listeners, its peers, the database. Port 0 means every port;
	// an unspecified address means the port on every loopback address.
	Deny []netip.AddrPort
}

// DevPolicy is the policy of one node on a laptop: loopback may be called.
func DevPolicy() AddressPolicy {
	return AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

const allowHint = "if this node is meant to call it, the operator can allow its network with --allow-targets"

// public refuses what the IANA registries call special: loopback, private,
// link-local, documentation, NAT64, 6to4, multicast and so on.
var public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())

// metadata are public addresses that clouds answer instance credentials on;
// the usual 169.254.169.254 and its kin are special already.
var metadata = []netip.Addr{netip.MustParseAddr("168.63.129.16")}

// ErrAddress is an address that a target must not have.
var ErrAddress = errors.New("address is not allowed as a target")

// CheckAddr decides about an address to connect to. Errors wrap ErrAddress.
func (p AddressPolicy) CheckAddr(a netip.AddrPort) error {
	addr := a.Addr().Unmap()
	switch {
	case !addr.IsValid():
		return fmt.Errorf("%w: no address", ErrAddress)
	case addr.Zone() != "":
		return fmt.Errorf("%w: %s has an IPv6 zone, which means another machine on each node", ErrAddress, addr)
	case p.denies(netip.AddrPortFrom(addr, a.Port())):
		return fmt.Errorf("%w: %s is an address of Belfry itself, its peers or its database, which no target may have", ErrAddress, a)
	case !validPort(a.Port()):
		return fmt.Errorf("%w: %s", ErrAddress, portProblem(a.Port()))
	case p.allows(addr):
		return nil
	case public.SafeAddr(addr) != nil || slices.Contains(metadata, addr):
		return fmt.Errorf("%w: %s is not a public address; %s", ErrAddress, addr, allowHint)
	}
	return nil
}

// AllowsPlain reports whether an address may be called by http without TLS.
func (p AddressPolicy) AllowsPlain(a netip.Addr) bool {
	return p.AllowPlainHTTP || p.allows(a.Unmap())
}

func (p AddressPolicy) allows(a netip.Addr) bool {
	return slices.ContainsFunc(p.Allow, func(n netip.Prefix) bool { return n.Contains(a) })
}

func (p AddressPolicy) denies(a netip.AddrPort) bool {
	return slices.ContainsFunc(p.Deny, func(d netip.AddrPort) bool {
		if d.Port() != 0 && d.Port() != a.Port() {
			return false
		}
		own := d.Addr().Unmap()
		if own.IsUnspecified() {
			return a.Addr().IsLoopback() || a.Addr().IsUnspecified()
		}
		return own == a.Addr()
	})
}

// CheckURL decides about the URL of a target as far as it shows: its form, its
// scheme, its port, and its host if that is an address. A name is judged when
// it is connected to.
func (p AddressPolicy) CheckURL(field, raw string) *Invalid {
	u, refused := parseTarget(field, raw)
	if refused != nil {
		return refused
	}
	port := uint16(443)
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return Refuse(field, "the port %s is not a number from 1 to 65535", shown(text))
		}
		port = uint16(n)
	}
	if !validPort(port) {
		return Refuse(field, "%s", portProblem(port))
	}
	addrs, refused := hostAddrs(field, u.Hostname())
	if refused != nil {
		return refused
	}
	return p.checkHost(field, u.Scheme == "http", addrs, port)
}

// checkHost decides about the addresses that a host is known to have; none are
// known of an ordinary name. Of several (localhost has two) one must pass.
func (p AddressPolicy) checkHost(field string, plain bool, addrs []netip.Addr, port uint16) *Invalid {
	var last error
	usable := addrs[:0:0]
	for _, a := range addrs {
		if err := p.CheckAddr(netip.AddrPortFrom(a, port)); err != nil {
			last = err
			continue
		}
		usable = append(usable, a)
	}
	if len(addrs) > 0 && len(usable) == 0 {
		return Refuse(field, "%v", last)
	}
	if !plain || p.AllowPlainHTTP || slices.ContainsFunc(usable, p.allows) || len(addrs) == 0 && len(p.Allow) > 0 {
		return nil
	}
	return Refuse(field, "http:// sends the request unprotected, so https:// is required; %s (allowed networks may be called by http)", allowHint)
}

// parseTarget checks the form of a URL. What a parser might read in two ways
// is refused, and nothing of the URL is repeated: it may hold secrets.
func parseTarget(field, raw string) (*url.URL, *Invalid) {
	switch {
	case raw == "":
		return nil, Refuse(field, "a target needs a URL, such as https://example.com/hook")
	case len(raw) > MaxURL:
		return nil, Refuse(field, "it has %d bytes, and at most %d are allowed; send data in the body", len(raw), MaxURL)
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			return nil, Refuse(field, "the character at byte %d cannot stand in a URL: percent-encode it (and write a non-ASCII host in its xn-- form)", i+1)
		}
	}
	if mentionsSecret(raw) {
		return nil, Refuse(field, "a reference to a secret is replaced in headers only, since URLs end up in logs: put it into a header")
	}
	if strings.Contains(raw, "%00") {
		return nil, Refuse(field, "%%00 stands for NUL, which servers cut or refuse: leave it out")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, Refuse(field, "it is not a URL that can be read: write it like https://example.com/hook")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, Refuse(field, "the scheme %s is not supported: a URL starts with https://", shown(u.Scheme))
	case u.Opaque != "" || u.Host == "":
		return nil, Refuse(field, "it has no host: write %s://host/path", u.Scheme)
	case u.User != nil:
		return nil, Refuse(field, "a user name or password in a URL ends up in logs: use a header of the target instead")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return nil, Refuse(field, "the part after # is never sent to a server: leave it out")
	case strings.HasSuffix(u.Host, ":"):
		return nil, Refuse(field, "there is a colon and no port after the host: leave the colon out or write a port")
	}
	return u, nil
}

// hostAddrs is what a host says about its addresses: itself if it is one,
// loopback for localhost, nothing for a name that must be looked up.
func hostAddrs(field, host string) ([]netip.Addr, *Invalid) {
	if strings.ContainsAny(host, "%") {
		return nil, Refuse(field, "an IPv6 zone means another machine on each node: write the address without %%zone")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case numeric(last):
		return nil, Refuse(field, "the host %s looks like a number, which programs read as different addresses: write an IPv4 address as four decimal numbers without leading zeros", shown(host))
	case last == "localhost" || name == "localhost.localdomain" || name == "ip6-localhost" || name == "ip6-loopback":
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	case name == "metadata.google.internal" || name == "metadata":
		return []netip.Addr{netip.AddrFrom4([4]byte{169, 254, 169, 254})}, nil
	}
	return nil, checkName(field, name, labels)
}

func checkName(field, name string, labels []string) *Invalid {
	bad := len(name) > 253
	for _, l := range labels {
		bad = bad || l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
	}
	if bad {
		return Refuse(field, "the host %s is not a name that can be looked up: labels have 1 to 63 letters, digits or hyphens, and all together at most 253 bytes", shown(name))
	}
	return nil
}

// numeric reports whether the last label of a host makes it a number for some
// resolvers: 2130706433, 0x7f000001, 127.1, 0177.0.0.1.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// closedPorts belong to services that are not HTTP and could be made to do
// something by the bytes of a request.
var closedPorts = []uint16{
	1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
	109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 138, 139, 143, 161, 162, 179, 389, 427, 445, 464, 465, 512, 513, 514, 515,
	526, 530, 531, 532, 540, 543, 544, 548, 554, 556, 563, 587, 601, 631, 636, 873, 989, 990, 992, 993, 995,
	1433, 1521, 1719, 1720, 1723, 2049, 2181, 3306, 3389, 3659, 4045, 5060, 5061, 5432, 5672, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6697,
	9042, 9092, 10080, 11211, 27017,
}

func validPort(port uint16) bool { return port != 0 && !slices.Contains(closedPorts, port) }

func portProblem(port uint16) string {
	if port == 0 {
		return "port 0 is no port: leave it out, or write a number from 1 to 65535"
	}
	return fmt.Sprintf("port %d belongs to a service that does not speak HTTP: use another port", port)
}
