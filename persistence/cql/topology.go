package cql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"
)

// topology is what the database says of itself.
type topology struct {
	nodes  map[string]int // by data centre
	first  string         // the least host id: the coordinator of changes of the schema
	scylla string         // version of ScyllaDB; "" when it is Cassandra
}

type host struct {
	DataCenter string
	HostID     gocql.UUID
}

func readTopology(ctx context.Context, s gocqlx.Session) (topology, error) {
	t := topology{nodes: map[string]int{}}
	for _, table := range []string{"local", "peers"} {
		var hosts []host
		if err := s.ContextQuery(ctx, "SELECT data_center, host_id FROM system."+table, nil).Select(&hosts); err != nil {
			return t, fmt.Errorf("read system.%s: %w", table, err)
		}
		for _, h := range hosts {
			t.nodes[h.DataCenter]++
			if id := h.HostID.String(); t.first == "" || id < t.first {
				t.first = id
			}
		}
	}
	err := s.ContextQuery(ctx, "SELECT version FROM system.versions WHERE key = 'local'", nil).Get(&t.scylla)
	var refusal gocql.RequestError
	if errors.As(err, &refusal) && refusal.Code() == gocql.ErrCodeInvalid {
		return t, nil // no such table: Cassandra
	}
	if err != nil {
		return t, fmt.Errorf("read system.versions: %w", err)
	}
	return t, nil
}

// WrongDC is the answer to a LocalDC that the database does not have.
type WrongDC struct {
	LocalDC string
	Have    []string
}

func (e *WrongDC) Error() string {
	return fmt.Sprintf("the database has no node in data centre %q: it has %s", e.LocalDC, strings.Join(e.Have, ", "))
}

// check refuses a data centre that is not there.
func (t topology) check(localDC string) error {
	if t.nodes[localDC] > 0 {
		return nil
	}
	return &WrongDC{LocalDC: localDC, Have: slices.Sorted(maps.Keys(t.nodes))}
}

// replication is the clause of a new keyspace.
func (t topology) replication(c Config) string {
	copies := c.Replication
	if copies == nil {
		copies = map[string]int{c.LocalDC: min(t.nodes[c.LocalDC], 3)}
	}
	var b strings.Builder
	b.WriteString("{'class': 'NetworkTopologyStrategy'")
	for _, dc := range slices.Sorted(maps.Keys(copies)) {
		fmt.Fprintf(&b, ", '%s': %d", strings.ReplaceAll(dc, "'", "''"), copies[dc])
	}
	b.WriteString("}")
	return b.String() + tablets(t.scylla)
}

// tablets turns tablets off where conditional writes do not work on them: in
// ScyllaDB before 2025.4. Cassandra, and ScyllaDB before 6.0 and 2024.2, do not
// know the word.
func tablets(scylla string) string {
	const off = " AND tablets = {'enabled': false}"
	if scylla == "" {
		return ""
	}
	major, minor, ok := version(scylla)
	switch {
	case !ok:
		return off
	case major >= 2000: // by year
		if major < 2024 || major == 2024 && minor < 2 || major > 2025 || major == 2025 && minor >= 4 {
			return ""
		}
		return off
	case major < 6:
		return ""
	}
	return off
}

// version reads the first two numbers of "2025.4.1-0.20251101".
func version(text string) (major, minor int, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	digits := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(parts[1])
	}
	minor, err = strconv.Atoi(parts[1][:digits])
	return major, minor, err == nil
}
