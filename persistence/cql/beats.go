package cql

import (
	"context"
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

// beatPatience is how long a server may leave a beat, or a reading of all of
// them, unanswered before it is asked last. It is shorter than the 300 ms after which a beat is sent again, so
// that the second one goes through another server while the first is under way.
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
		return s.db.ContextQuery(ctx, firstBeat, nil).Bind(b.Node, incarnation, b.N, b.Address, b.Roles)
	}
	return s.db.ContextQuery(ctx, nextBeat, nil).Bind(b.N, b.Address, b.Roles, b.Node, incarnation, b.N-1)
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
// A reading of all rows that meets a silent replica has no answer until the
// servers have noticed that, many seconds later. So after 250 ms the rows of the
// nodes that are known are asked for by name, for which a server turns to other
// replicas at once. What that leaves out is a node that has just come.
func (s *Store) Beats(ctx context.Context) ([]persistence.Beat, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read beats: %w", err)
	}
	rows, err := s.beats(ctx)
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
	all  bool // of all nodes, not of those known
	err  error
}

// beats is the first answer to a reading of all rows and one by name.
func (s *Store) beats(ctx context.Context) ([]node, error) {
	var reads sync.WaitGroup
	defer reads.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all, trail := s.route.trail(ctx)
	answers := make(chan reading, 2)
	reads.Go(func() { answers <- s.reading(all, true, s.db.ContextQuery(all, selectBeats, nil)) })
	patience := time.NewTimer(beatPatience)
	defer patience.Stop()
	for under := 1; ; {
		select {
		case <-patience.C:
			trail.late()
			if names := s.nodes.Load(); names != nil {
				under++
				reads.Go(func() {
					answers <- s.reading(ctx, false, s.db.ContextQuery(ctx, selectBeats+ofNodes, nil).Bind(*names))
				})
			}
		case r := <-answers:
			if under--; r.err != nil && under > 0 {
				continue
			}
			if r.err == nil && r.all {
				s.know(r.rows)
			}
			return r.rows, r.err
		}
	}
}

func (s *Store) reading(ctx context.Context, all bool, q *gocqlx.Queryx) reading {
	defer q.Release()
	r := reading{all: all}
	r.err = s.again(ctx, func() error {
		r.rows = nil
		return q.Select(&r.rows)
	})
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
		if _, err = s.cas(s.db.ContextQuery(ctx, forgetNode, nil).Bind(o.Node, gocql.UUID(o.Incarnation))); err != nil {
			err = unmoved(err)
		}
	}
	if err != nil {
		return fmt.Errorf("forget node %s: %w", o.Node, err)
	}
	return nil
}
