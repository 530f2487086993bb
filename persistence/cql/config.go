package cql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"time"
)

// Defaults of a Config.
const (
	DefaultKeyspace         = "belfry"
	DefaultRetention        = 30 * 24 * time.Hour
	DefaultTimeout          = 3 * time.Second
	DefaultConnectTimeout   = 5 * time.Second
	DefaultSchemaAgreement  = 10 * time.Second
	DefaultConnectionsAHost = 2
)

// maxRetention is the longest TTL that a database takes.
const maxRetention = 20 * 365 * 24 * time.Hour

// Config says where the database is and how it is used. Hosts and LocalDC are
// required; the zero value of every other field means its default.
type Config struct {
	// Hosts are some nodes of the database, "host" or "host:port"; the others
	// are found through them.
	Hosts []string
	// Keyspace holds all tables. It is made when it is not there.
	// "": DefaultKeyspace.
	Keyspace string
	// LocalDC is the data centre whose nodes are used. All nodes of a Belfry
	// cluster name the same one: its replicas alone agree on conditional writes.
	LocalDC string
	// Username and PasswordFile log in; the file holds the password, and a
	// newline at its end is not part of it. "": no login.
	Username     string
	PasswordFile string
	// CAFile, in PEM form, signs the certificates of the database's nodes; naming
	// it turns TLS on. "" with CertFile set: the system's authorities.
	CAFile string
	// CertFile and KeyFile, in PEM form, are this node's own certificate, for
	// databases that ask for one.
	CertFile string
	KeyFile  string
	// Replication is the number of copies in each data centre, used when the
	// keyspace is made and never afterwards. nil: in LocalDC alone, as many as it
	// has nodes, three at most.
	Replication map[string]int
	// Retention is how long a line of history is kept, from when it was
	// committed. 0: DefaultRetention.
	Retention time.Duration
	// Timeout bounds one read, one copy of history and one barrier. Commits give
	// up earlier, see the package comment. 0: DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout bounds the making of one connection.
	// 0: DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// SchemaAgreement bounds the wait of one statement of the schema for all
	// nodes of the database to know it; with a node down it is waited out.
	// 0: DefaultSchemaAgreement.
	SchemaAgreement time.Duration
	// Connections to each node of the database. 0: DefaultConnectionsAHost.
	Connections int
	// Waiting, if set, is told each time Open cannot go on yet, and why.
	Waiting func(why string)
	// Logger receives what the store has to say. nil: slog.Default().
	Logger *slog.Logger

	seams seams
}

// seams are the places where tests of this package reach in.
type seams struct {
	dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil: as the driver dials
	unfenced bool                                                              // conditions that hold under any fence
	patience time.Duration                                                     // for a commit, at least; 0: leastPatience
	noProbes bool                                                              // nothing is sent unasked
	copying  func() error                                                      // asked before each copy of history
}

var keyspaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Validate names the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case len(c.Hosts) == 0:
		return errors.New("cql store: Hosts is empty: name at least one node of the database")
	case c.LocalDC == "":
		return errors.New("cql store: LocalDC is empty: name the data centre to use, as the database calls it")
	case c.Keyspace != "" && !keyspaceName.MatchString(c.Keyspace):
		return fmt.Errorf("cql store: Keyspace is %q: lower-case letters, digits and _, beginning with a letter, 48 at most", c.Keyspace)
	case (c.Username == "") != (c.PasswordFile == ""):
		return errors.New("cql store: Username and PasswordFile go together: set both or none")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("cql store: CertFile and KeyFile go together: set both or none")
	case c.Retention != 0 && (c.Retention < time.Hour || c.Retention > maxRetention):
		return fmt.Errorf("cql store: Retention is %s: from 1h to %s", c.Retention, maxRetention)
	case c.Timeout < 0 || c.ConnectTimeout < 0 || c.SchemaAgreement < 0:
		return errors.New("cql store: Timeout, ConnectTimeout or SchemaAgreement is negative: 0 for the default, or more")
	case c.Connections < 0:
		return fmt.Errorf("cql store: Connections is %d: 0 for the default of %d, or more", c.Connections, DefaultConnectionsAHost)
	}
	for dc, copies := range c.Replication {
		if dc == "" || copies < 1 {
			return fmt.Errorf("cql store: Replication gives data centre %q %d copies: at least 1", dc, copies)
		}
	}
	if c.Replication != nil && c.Replication[c.LocalDC] == 0 {
		return fmt.Errorf("cql store: Replication has no copies in LocalDC %q", c.LocalDC)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Keyspace == "" {
		c.Keyspace = DefaultKeyspace
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.SchemaAgreement == 0 {
		c.SchemaAgreement = DefaultSchemaAgreement
	}
	if c.Connections == 0 {
		c.Connections = DefaultConnectionsAHost
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
