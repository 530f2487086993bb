package config

import (
	"fmt"
	"strconv"
	"strings"
)

// CQL is where the database of the cql store is.
type CQL struct {
	Hosts        []string
	Keyspace     string
	LocalDC      string
	User         string
	PasswordFile string
	CA           string
	Cert         string
	Key          string
	Replication  map[string]int // copies by data centre, when the keyspace is made; nil: chosen by the store
}

func cqlSettings() []Setting {
	text := func(key, def, help string, field func(*CQL) *string) Setting {
		return Setting{Key: key, Default: def, Help: help, apply: func(s *Server, v string) error {
			*field(&s.CQL) = v
			return nil
		}}
	}
	return []Setting{
		{Key: "cql-hosts", Help: "some nodes of the database, host or host:port, separated by commas; the others are found", apply: func(s *Server, v string) error {
			s.CQL.Hosts = list(v)
			return nil
		}},
		text("cql-keyspace", "belfry", "keyspace of all tables; made when missing", func(c *CQL) *string { return &c.Keyspace }),
		text("cql-local-dc", "", "data centre whose nodes are used, as the database calls it; the same on every node", func(c *CQL) *string { return &c.LocalDC }),
		text("cql-user", "", "user name at the database", func(c *CQL) *string { return &c.User }),
		text("cql-password-file", "", "file that holds the password", func(c *CQL) *string { return &c.PasswordFile }),
		text("cql-ca", "", "PEM file of the authorities that sign the database's certificates; turns TLS on", func(c *CQL) *string { return &c.CA }),
		text("cql-cert", "", "PEM file of this node's own certificate", func(c *CQL) *string { return &c.Cert }),
		text("cql-key", "", "PEM file of its key", func(c *CQL) *string { return &c.Key }),
		{Key: "cql-replication", Help: "copies in each data centre when the keyspace is made, such as dc1=3,dc2=3 (default: in the local one, as many as it has nodes, at most 3)", apply: func(s *Server, v string) (err error) {
			s.CQL.Replication, err = replication(v)
			return err
		}},
	}
}

func list(v string) []string {
	var out []string
	for _, part := range strings.Split(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func replication(v string) (map[string]int, error) {
	var out map[string]int
	for _, part := range list(v) {
		dc, n, ok := strings.Cut(part, "=")
		copies, err := strconv.Atoi(n)
		if !ok || dc == "" || err != nil || copies < 1 {
			return nil, fmt.Errorf("%q is not a data centre with a number of copies; write it like dc1=3", part)
		}
		if out == nil {
			out = map[string]int{}
		}
		out[dc] = copies
	}
	return out, nil
}

// checkStore is what the settings of a store ask of each other.
func checkStore(s *Server) error {
	switch {
	case s.Store == "cql" && len(s.CQL.Hosts) == 0:
		return fmt.Errorf("cql-hosts: --store cql needs at least one node of the database")
	case s.Store == "cql" && s.CQL.LocalDC == "":
		return fmt.Errorf("cql-local-dc: --store cql needs the name of the data centre to use; \"nodetool status\" shows it")
	case s.Store == "embedded" && len(s.CQL.Hosts) > 0:
		return fmt.Errorf("cql-hosts: they are used with --store cql only, and the store is embedded")
	}
	return nil
}
