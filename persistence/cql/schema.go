package cql

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"
	"github.com/scylladb/gocqlx/v2"
)

//go:embed schema/*.cql
var schemaFiles embed.FS

const (
	schemaLockTTL  = 120 * time.Second // a lock whose holder died is free then
	schemaLookEach = 200 * time.Millisecond
)

// file is one step of the schema. Its number is the version that it leads to.
type file struct {
	number     int
	statements []string
}

// files are the steps in order; the first one, number 0, makes the table that
// holds the lock.
func files(c Config) ([]file, error) {
	names, err := fs.Glob(schemaFiles, "schema/*.cql")
	if err != nil {
		return nil, err
	}
	replace := strings.NewReplacer("{keyspace}", c.Keyspace, "{window}", strconv.Itoa(windowDays(c.Retention)))
	var all []file
	for _, name := range names {
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "schema/"), "_")
		f := file{statements: split(replace.Replace(string(text)))}
		if f.number, err = strconv.Atoi(number); err != nil || f.number != len(all) {
			return nil, fmt.Errorf("schema file %s: its number is not %d", name, len(all))
		}
		all = append(all, f)
	}
	return all, nil
}

// split cuts a file into its statements, without comments.
func split(text string) (statements []string) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		b.WriteString(line)
		b.WriteString("\n")
	}
	for s := range strings.SplitSeq(b.String(), ";") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	return statements
}

// windowDays is the size of the windows that history is compacted in: about
// thirty of them are kept.
func windowDays(retention time.Duration) int {
	days := int(retention / (24 * time.Hour))
	return max(1, (days+29)/30)
}

// schema brings the tables to the version that this program knows.
type schema struct {
	Config
	db     gocqlx.Session
	at     topology
	files  []file
	holder uuid.UUID
}

// prepare makes what is missing. A node that finds the version it knows, or a
// later one (they only add), sends nothing but reads.
func (m *schema) prepare(ctx context.Context) error {
	version, err := m.version(ctx)
	if err != nil || version >= m.last() {
		return err
	}
	if version < 0 {
		if err := m.bootstrap(ctx); err != nil {
			return err
		}
	}
	for {
		held, err := m.lock(ctx)
		if err != nil {
			return err
		}
		if held {
			return errors.Join(m.apply(ctx), m.unlock())
		}
		if version, err = m.version(ctx); err != nil || version >= m.last() {
			return err
		}
		if err := pause(ctx, schemaLookEach); err != nil {
			return err
		}
	}
}

func (m *schema) last() int { return m.files[len(m.files)-1].number }

// version reads how far the schema is: −1 when not even the table that says so
// is there.
func (m *schema) version(ctx context.Context) (int, error) {
	var tables []string
	err := m.db.ContextQuery(ctx, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", nil).
		Bind(m.Keyspace).Consistency(gocql.LocalOne).Select(&tables)
	if err != nil {
		return 0, fmt.Errorf("read the tables of keyspace %s: %w", m.Keyspace, err)
	}
	if len(tables) == 0 {
		return -1, nil
	}
	var version *int
	q := m.db.ContextQuery(ctx, "SELECT version FROM "+m.Keyspace+".bootstrap WHERE what = 'schema'", nil).Consistency(gocql.LocalSerial)
	err = q.Get(&version)
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return 0, nil
	case unknownTable(err):
		return -1, nil
	case err != nil:
		return 0, fmt.Errorf("read the schema's version: %w", err)
	case version == nil:
		return 0, nil
	}
	return *version, nil
}

func unknownTable(err error) bool {
	var refusal gocql.RequestError
	return errors.As(err, &refusal) && refusal.Code() == gocql.ErrCodeInvalid
}

// bootstrap makes the keyspace and the table of the lock. That cannot be done
// under the lock, so all nodes send it to one coordinator, which carries the
// statements out one after another; the second one finds it done.
func (m *schema) bootstrap(ctx context.Context) error {
	keyspace := "CREATE KEYSPACE IF NOT EXISTS " + m.Keyspace + " WITH replication = " + m.at.replication(m.Config)
	for _, statement := range append([]string{keyspace}, m.files[0].statements...) {
		if err := m.define(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// define runs a statement of the schema and waits for the nodes to agree on it.
func (m *schema) define(ctx context.Context, statement string) error {
	q := m.db.ContextQuery(ctx, statement, nil).Consistency(gocql.LocalQuorum)
	q.SetHostID(m.at.first)
	q.SetRequestTimeout(m.ConnectTimeout + m.Timeout)
	err := q.Exec()
	if errors.Is(err, gocql.ErrNoPool) || errors.Is(err, gocql.ErrNoConnectionsInPool) {
		err = m.db.ContextQuery(ctx, statement, nil).Exec() // that node is down: any other
	}
	if err != nil {
		first, _, _ := strings.Cut(statement, "(")
		return fmt.Errorf("%s: %w", strings.TrimSpace(first), err)
	}
	return nil
}

// apply runs the files that are missing. It is called under the lock.
func (m *schema) apply(ctx context.Context) error {
	version, err := m.version(ctx)
	if err != nil {
		return err
	}
	for _, f := range m.files {
		if f.number <= version || f.number == 0 {
			continue
		}
		for _, statement := range f.statements {
			if err := m.define(ctx, statement); err != nil {
				return err
			}
			if err := m.renew(ctx); err != nil {
				return err
			}
		}
		if err := m.reached(ctx, version, f.number); err != nil {
			return err
		}
		version = f.number
		m.Logger.Info("the schema was brought forward", "keyspace", m.Keyspace, "version", f.number)
	}
	return nil
}

// lock takes the lock of the schema when it is free or already ours.
func (m *schema) lock(ctx context.Context) (bool, error) {
	applied, holder, err := m.cas(ctx, "INSERT INTO {bootstrap} (what, holder) VALUES ('lock', ?) IF NOT EXISTS USING TTL ?",
		gocql.UUID(m.holder), int(schemaLockTTL.Seconds()))
	if err != nil {
		return false, fmt.Errorf("lock the schema: %w", err)
	}
	return applied || holder == m.holder, nil
}

var errLockLost = errors.New("the lock of the schema was lost while it was being changed: start again")

// renew holds the lock for another while.
func (m *schema) renew(ctx context.Context) error {
	applied, _, err := m.cas(ctx, "UPDATE {bootstrap} USING TTL ? SET holder = ? WHERE what = 'lock' IF holder = ?",
		int(schemaLockTTL.Seconds()), gocql.UUID(m.holder), gocql.UUID(m.holder))
	if err == nil && !applied {
		err = errLockLost
	}
	return err
}

// unlock frees the lock, if it can; else it ends by itself.
func (m *schema) unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.Timeout)
	defer cancel()
	if _, _, err := m.cas(ctx, "DELETE FROM {bootstrap} WHERE what = 'lock' IF holder = ?", gocql.UUID(m.holder)); err != nil {
		m.Logger.Warn("the lock of the schema could not be freed and ends by itself", "after", schemaLockTTL.String(), "err", err)
	}
	return nil
}

// reached notes that a file was applied.
func (m *schema) reached(ctx context.Context, from, to int) error {
	set, values := "UPDATE {bootstrap} SET version = ? WHERE what = 'schema' IF version = ", []any{to}
	if from == 0 {
		set += "null"
	} else {
		set, values = set+"?", append(values, from)
	}
	applied, _, err := m.cas(ctx, set, values...)
	if err == nil && !applied {
		if from, err = m.version(ctx); err == nil && from < to {
			err = errLockLost
		}
	}
	if err != nil {
		return fmt.Errorf("note version %d of the schema: %w", to, err)
	}
	return nil
}

// cas runs a conditional statement on the table of the lock. Each of them may
// be repeated, so a lost answer is asked for again.
func (m *schema) cas(ctx context.Context, statement string, values ...any) (applied bool, holder uuid.UUID, err error) {
	statement = strings.Replace(statement, "{bootstrap}", m.Keyspace+".bootstrap", 1)
	for attempt := 0; ; attempt++ {
		row := map[string]any{}
		q := m.db.ContextQuery(ctx, statement, nil).Bind(values...).SerialConsistency(gocql.LocalSerial)
		applied, err = q.MapScanCAS(row)
		if err == nil {
			id, _ := row["holder"].(gocql.UUID)
			return applied, uuid.UUID(id), nil
		}
		if attempt == 4 || ctx.Err() != nil {
			return false, uuid.Nil, err
		}
		if err := pause(ctx, schemaLookEach); err != nil {
			return false, uuid.Nil, err
		}
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
