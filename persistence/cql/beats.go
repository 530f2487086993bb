package cql

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// The statements on signs of life. Every write is conditional, the removal too:
// one without a condition takes its time from a coordinator's clock, which may
// lie before the ballot of the last beat, and would then remove nothing.
//
// A row lives a day (86,400 s) after its last beat.
const (
	firstBeat   = "INSERT INTO nodes (node, incarnation, beat, address, roles) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS USING TTL 86400"
	nextBeat    = "UPDATE nodes USING TTL 86400 SET beat = ?, address = ?, roles = ? WHERE node = ? AND incarnation = ? IF beat = ?"
	selectBeats = "SELECT node, incarnation, beat, address, roles FROM nodes"
	ofNodes     = " WHERE node IN ?"
	forgetNode  = "DELETE FROM nodes WHERE node = ? AND incarnation = ? IF EXISTS"
)

// beatPatience is how long a server may leave a beat, or a reading of beats,
// unanswered before another one is asked. It is shorter than the 300 ms after
// which a beat is sent again, so that the second one goes through another server
// while the first is under way.
const beatPatience = 250 * time.Millisecond

var _ persistence.Beats = (*Store)(nil)

// Beat moves a node's beat from b.N-1 to b.N in one conditional request that is
// sent once. Refused with b.N it is ours, sent before: called again with the
// same number it settles its own doubt.
func (s *Store) Beat(ctx context.Context, b persistence.Beat) error {
	if err := s.beat(ctx, b); err != nil {
		return fmt.Errorf("beat %d of node %s: %w", b.N, b.Node, err)
	}
	return nil
}

func (s *Store) beat(ctx context.Context, b persistence.Beat) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, trail := s.route.trail(ctx)
	defer time.AfterFunc(beatPatience, trail.late).Stop()
	a, err := s.cas(s.beating(ctx, b))
	switch {
	case err != nil:
		return unmoved(err)
	case a.applied, a.beat != nil && *a.beat == b.N:
		return nil
	}
	return persistence.ErrBeatLost
}

func (s *Store) beating(ctx context.Context, b persistence.Beat) *gocqlx.Queryx {
	incarnation := gocql.UUID(b.Incarnation)
	if b.N == 1 {
		return s.routed(ctx, firstBeat, b.Node).Bind(b.Node, incarnation, b.N, b.Address, b.Roles)
	}
	return s.routed(ctx, nextBeat, b.Node).Bind(b.N, b.Address, b.Roles, b.Node, incarnation, b.N-1)
}

// routed is a statement that goes to the replicas of a node's row first. They
// are named because the driver, to find them out, has some server prepare the
// statement, and lets every call wait for that server, whatever their contexts
// say: a silent one would hold up all of them for a Config.Timeout.
func (s *Store) routed(ctx context.Context, statement, node string) *gocqlx.Queryx {
	return s.db.ContextQuery(ctx, statement, nil).RoutingKey([]byte(node))
}

// unmoved is the outcome of a write to a sign of life that has no clear answer.
// There is no barrier behind it: whoever wants to know sends it again.
func unmoved(err error) error { return fmt.Errorf("%w: %v", job.ErrUnavailable, err) }

// node is a row of the table nodes as the driver reads it.
type node struct {
	Node        string
	Incarnation gocql.UUID
	Beat        int64
	Address     string
	Roles       []string
}

// Beats reads all rows at LOCAL_QUORUM. A beat that was acknowledged has been
// committed at that level and is seen. One that is in doubt may be accepted by
// some replicas and be seen only when the next conditional write to its row has
// finished it. That is safe: its sender does not count it as long as it is not
// acknowledged, and whoever takes a partition too early for it is told apart by
// the fence. A serial read would finish it, and contend with every beat.
//
// A reading of all rows goes through every replica set, and a server that meets
// a silent replica on the way does not turn to another one: there is no answer
// until the silence is noticed, 10 s and more. So after 250 ms the rows of the
// nodes that are known, by names or from the last reading of all, are asked for
// by name. For these a server turns to another replica after 50 ms (the table's
// speculative_retry), so a silent one matters only as the server asked, and then
// another one is asked 250 ms later; the first answer counts. What it leaves out
// is a node that has just come and is not among names.
func (s *Store) Beats(ctx context.Context, names ...string) ([]persistence.Beat, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read beats: %w", err)
	}
	names = slices.Clone(names)
	if known := s.nodes.Load(); known != nil {
		names = append(names, *known...)
	}
	slices.Sort(names)
	rows, err := s.beats(ctx, slices.Compact(names))
	if err != nil {
		return nil, fmt.Errorf("read beats: %w", unreadable(err))
	}
	beats := make([]persistence.Beat, 0, len(rows))
	for _, r := range rows {
		owner := persistence.Owner{Node: r.Node, Incarnation: [16]byte(r.Incarnation)}
		beats = append(beats, persistence.Beat{Owner: owner, N: r.Beat, Address: r.Address, Roles: r.Roles})
	}
	return beats, nil
}

// reading is what a reading of beats came to.
type reading struct {
	rows []node
	err  error
}

// beats is the first answer to a reading of all rows and some by name.
func (s *Store) beats(ctx context.Context, names []string) ([]node, error) {
	var reads sync.WaitGroup
	defer reads.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan reading, 1+readTries)
	reads.Go(func() { answers <- s.readAll(ctx) })
	under, tries := 1, readTries
	if len(names) == 0 {
		tries = 0
	}
	var last *trail
	byName := func() {
		if tries == 0 {
			return
		}
		tries--
		under++
		ctx, trail := s.route.trail(ctx)
		last = trail
		reads.Go(func() { answers <- s.readNamed(ctx, names) })
	}
	patience := time.NewTicker(beatPatience)
	defer patience.Stop()
	for {
		select {
		case <-patience.C:
			last.late()
			byName()
		case r := <-answers:
			if r.err == nil {
				return r.rows, nil
			}
			if under--; worthwhile(ctx, r.err) {
				byName()
			}
			if under == 0 {
				return nil, r.err
			}
		}
	}
}

// readAll reads all rows, and remembers whose they are. It goes through any
// server, and says nothing about that one when it takes long: the silent one
// may be any replica.
func (s *Store) readAll(ctx context.Context) (r reading) {
	r.err = s.again(ctx, func() error {
		r.rows = nil
		return s.routed(ctx, selectBeats, rand.Text()).SelectRelease(&r.rows)
	})
	if r.err == nil {
		s.know(r.rows)
	}
	return r
}

// readNamed reads the rows of some nodes through one server.
func (s *Store) readNamed(ctx context.Context, names []string) (r reading) {
	r.err = s.routed(ctx, selectBeats+ofNodes, rand.Text()).Bind(names).SelectRelease(&r.rows)
	return r
}

// know remembers whose rows there are.
func (s *Store) know(rows []node) {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.Node) {
			names = append(names, r.Node)
		}
	}
	if names != nil {
		s.nodes.Store(&names)
	}
}

// Forget removes the row of a node. It may be repeated.
func (s *Store) Forget(ctx context.Context, o persistence.Owner) error {
	err := s.enter(ctx)
	if err == nil {
		if _, err = s.cas(s.routed(ctx, forgetNode, o.Node).Bind(o.Node, gocql.UUID(o.Incarnation))); err != nil {
			err = unmoved(err)
		}
	}
	if err != nil {
		return fmt.Errorf("forget node %s: %w", o.Node, err)
	}
	return nil
}
