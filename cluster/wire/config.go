package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is how a process talks to the others of its cluster.
type Config struct {
	// Listen is the host:port of the gRPC server; port 0 takes a free one.
	Listen string

	// Advertise is the host, or host:port, by which the others reach Listen.
	// Without a port it has that of Listen; empty, it is Listen. It is needed
	// when Listen names all addresses of the machine.
	Advertise string

	// Cluster is the label that all processes of a cluster share, 1 to 255 bytes.
	Cluster string

	// TLS is on when any of its files is set. It is needed off loopback.
	TLS TLS

	// Insecure allows plaintext off loopback: whoever reaches Listen, or reads
	// what passes, controls everything.
	Insecure bool

	// Allow names the message types, beside belfry.v1.*, that are sent and
	// received: full protobuf names such as "shop.v1.Order".
	Allow []string

	Log        *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // of the metrics; nil: they count for nobody

	// off switches guards off, so that a test sees what they are for.
	off struct{ sending, receiving bool }

	queue int // bytes that wait for one peer, for tests; 0: maxQueue
}

// TLS names PEM files. They may be replaced at any time: each handshake reads
// them.
type TLS struct {
	CA   string // certificates of the authority that signed those of all processes
	Cert string // certificate of this one, for server and client authentication
	Key  string // its private key
}

func (t TLS) on() bool { return t != TLS{} }

// The limits, and what they are for.
const (
	connectTimeout = 2 * time.Second        // from dial to the peer's ConnectResponse
	sendTimeout    = 5 * time.Second        // for one batch: a stopped peer takes none
	redialAfter    = 500 * time.Millisecond // between the beginnings of two dials to one address

	maxMessage  = 4 << 20  // bytes of a message, marshalled, and where a batch is closed
	maxBatch    = 200      // messages of a batch
	maxQueue    = 64 << 20 // bytes that wait for one peer
	maxReceived = 16 << 20 // bytes of a batch that the server reads: more than any of ours

	keepaliveTime    = 10 * time.Second // gRPC's least
	keepaliveTimeout = 3 * time.Second
	keepaliveLeast   = 5 * time.Second // pings of a client that come faster than this end its connection
	handshakeTimeout = 5 * time.Second // of a connection that came in
	maxHeader        = 8 << 10         // bytes of a stream's metadata
	maxStreams       = 8               // at a time, of a connection that came in: a peer uses one
)

// endpoint is where to listen, and the address that others are told; "" is the
// one that is listened on.
type endpoint struct {
	host      string
	port      int
	advertise string
}

// check says what is wrong with a configuration, and which setting helps.
func (c Config) check() (endpoint, error) {
	if n := len(c.Cluster); n == 0 || n > 255 {
		return endpoint{}, fmt.Errorf("the cluster's name has %d bytes, it needs 1 to 255", n)
	}
	e, err := c.endpoint()
	if err != nil {
		return endpoint{}, err
	}
	if t := c.TLS; t.on() && (t.CA == "" || t.Cert == "" || t.Key == "") {
		return endpoint{}, errors.New("TLS between nodes needs all of CA, certificate and key (--cluster-ca, --cluster-cert, --cluster-key)")
	}
	if c.TLS.on() || c.Insecure {
		return e, nil
	}
	for _, address := range []string{c.Listen, e.advertise} {
		if address != "" && !isLoopback(address) {
			return endpoint{}, fmt.Errorf("%s is not a loopback address, and messages between nodes would pass it in plaintext: "+
				"give CA, certificate and key (--cluster-ca, --cluster-cert, --cluster-key), or allow it (--cluster-insecure)", address)
		}
	}
	return e, nil
}

func (c Config) endpoint() (endpoint, error) {
	host, portText, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return endpoint{}, fmt.Errorf("listen address %q is not host:port: %w", c.Listen, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return endpoint{}, fmt.Errorf("listen address %q has no port number", c.Listen)
	}
	e := endpoint{host: host, port: int(port)}
	if c.Advertise == "" {
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			return endpoint{}, fmt.Errorf("%q listens on all addresses: say by which one other nodes reach it (--advertise)", c.Listen)
		}
		return e, nil
	}
	if e.port == 0 {
		if e.port, err = freePort(host); err != nil {
			return endpoint{}, err
		}
	}
	e.advertise, err = withPort(c.Advertise, e.port)
	return e, err
}

// freePort is one that was free a moment ago.
func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// withPort adds the port to a host, or to host:port that has none of its own.
func withPort(advertise string, port int) (string, error) {
	host, own := advertise, ""
	if h, p, err := net.SplitHostPort(advertise); err == nil {
		host, own = h, p
	}
	if own == "" || own == "0" {
		own = strconv.Itoa(port)
	}
	if _, err := strconv.ParseUint(own, 10, 16); err != nil || host == "" {
		return "", fmt.Errorf("advertised address %q is not host or host:port", advertise)
	}
	return net.JoinHostPort(host, own), nil
}

// isLoopback tells whether host:port never leaves the machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
