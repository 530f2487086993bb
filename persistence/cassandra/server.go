package cassandra

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Config says what to start.
type Config struct {
	// Nodes is how many nodes, 1 to 9.
	Nodes int
	// Network is the first three numbers of the nodes' addresses: with 127.0.0
	// they are 127.0.0.1, 127.0.0.2, … Empty: one that nobody uses.
	Network string
	// Dir keeps the data for the next start with the same Config. Empty: a
	// temporary directory that goes with the server.
	Dir string
	// Measured runs the nodes with Java's full compiler and collector, for a
	// server that lives long or whose speed is asked for.
	Measured bool
	// Guarded has clients come under TLS, with a certificate of their own, and log
	// in; Server.Guard has what they need. One node only.
	Guarded bool
}

// Validate names the field that is wrong.
func (c Config) Validate() error {
	if c.Nodes < 1 || c.Nodes > 9 {
		return fmt.Errorf("nodes: %d is not from 1 to 9", c.Nodes)
	}
	if c.Guarded && c.Nodes > 1 {
		return fmt.Errorf("guarded: %d nodes, and only one can be", c.Nodes)
	}
	return nil
}

// Server is a running cluster, one node or several. Its methods answer with
// errors; a Cluster is the same for a test, which fails of them.
type Server struct {
	nodes []*node
	home  *home
	addr  *addresses
	hosts []string // of a server that is not ours; then there are no nodes
	guard *Guard   // nil: anybody may come
	dc    string
}

// Open starts a cluster, or answers with the one that BELFRY_TEST_CQL_HOSTS
// names. What is missing on this machine is an ErrMissing.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if e := external(); e != nil {
		return e.open(ctx, cfg)
	}
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := resolveJars(ctx)
	if err != nil {
		return nil, err
	}
	s, err := prepare(cfg, java, jars)
	if err != nil {
		return nil, fmt.Errorf("test database: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("test database (logs: %s): %w", s.Dir(), errors.Join(err, s.Close(true)))
	}
	return s, nil
}

// prepare makes everything but processes.
func prepare(cfg Config, java, jars string) (s *Server, err error) {
	s = &Server{dc: defaultDC}
	if cfg.Network == "" {
		s.addr, err = claimAddresses(cfg.Nodes)
	} else {
		s.addr, err = fixedAddresses(cfg.Network, cfg.Nodes)
	}
	if err != nil {
		return nil, err
	}
	if s.home, err = openHome(cfg.Dir); err != nil {
		s.addr.release()
		return nil, err
	}
	if cfg.Guarded {
		if s.guard, err = newGuard(filepath.Join(s.home.dir, "guard"), s.addr.of(0)); err != nil {
			return nil, errors.Join(err, s.Close(false))
		}
	}
	for i := range cfg.Nodes {
		n, err := newNode(i, cfg, java, jars, s.addr, s.home, s.guard)
		if err != nil {
			return nil, errors.Join(err, s.Close(false))
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

// start starts the nodes one after another: together they would not find each
// other.
func (s *Server) start(ctx context.Context) error {
	for _, n := range s.nodes {
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	return s.awaitSight(ctx)
}

// Hosts are the nodes as host:port.
func (s *Server) Hosts() []string {
	if s.External() {
		return append([]string(nil), s.hosts...)
	}
	var all []string
	for _, n := range s.nodes {
		all = append(all, n.host)
	}
	return all
}

// LocalDC is the data centre that clients are in.
func (s *Server) LocalDC() string { return s.dc }

// Guard is what clients of a guarded server need; nil when it is not guarded.
func (s *Server) Guard() *Guard { return s.guard }

// External: the server is not ours; only Hosts, LocalDC and Close have a use.
func (s *Server) External() bool { return s.addr == nil }

// Dir is the directory with the nodes' logs; empty when the server is not ours.
func (s *Server) Dir() string {
	if s.External() {
		return ""
	}
	return s.home.dir
}

// Close ends the nodes. Their logs stay when they are wanted.
func (s *Server) Close(keepLogs bool) error {
	if s.External() {
		return nil
	}
	var errs []error
	for i := len(s.nodes) - 1; i >= 0; i-- {
		if n := s.nodes[i]; s.home.kept && n.up() {
			errs = append(errs, n.stop())
		} else {
			n.kill() // nobody will read its data
		}
	}
	s.addr.release()
	return errors.Join(append(errs, s.home.close(keepLogs))...)
}
