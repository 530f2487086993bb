package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// clerk asks a broker and notes what it answers.
type clerk struct {
	broker
	now     time.Time
	answers []string // who was referred where
}

func newClerk() *clerk {
	return &clerk{broker: *newBroker(), now: time.Unix(1_000_000, 0)}
}

func (c *clerk) ask(id string, most int32, wait time.Duration) {
	c.poll(c.now, &poll{id: id, max: most, until: c.now.Add(wait), reply: func(r *belfryv1.Referral) {
		to := "nowhere"
		if r.GetFound() {
			to = fmt.Sprint("p", r.GetPartition())
		}
		c.answers = append(c.answers, id+" to "+to)
	}})
}

func (c *clerk) waits(partition, count, jobs int32) {
	c.hint(c.now, &belfryv1.Hint{Partition: partition, Count: count, Jobs: jobs})
}

func (c *clerk) want(t *testing.T, answers ...string) {
	t.Helper()
	if !slices.Equal(c.answers, answers) {
		t.Errorf("answered %q, want %q", c.answers, answers)
	}
	c.answers = nil
	if len(c.turns) != len(c.stocks) {
		t.Errorf("%d partitions take turns, and %d have something", len(c.turns), len(c.stocks))
	}
}

// Who comes first is served first, and only as many as something waits for.
func TestPollsAreServedInOrder(t *testing.T) {
	t.Parallel()
	c := newClerk()
	c.ask("a", 1, time.Second)
	c.ask("b", 1, time.Second)
	c.ask("c", 1, time.Second)
	c.want(t)
	c.waits(7, 2, 2)
	c.want(t, "a to p7", "b to p7")
	c.now = c.now.Add(time.Second)
	c.expire(c.now)
	c.want(t, "c to nowhere")
	c.waits(7, 1, 1)
	c.ask("d", 1, 0)
	c.ask("e", 1, 0)
	c.want(t, "d to p7", "e to nowhere")
}

// Partitions take turns, each for as many executions as it has jobs.
func TestTurnsAreByJobs(t *testing.T) {
	t.Parallel()
	c := newClerk()
	c.waits(1, 10_000, 1)
	c.waits(2, 6, 3)
	for range 8 {
		c.ask("w", 1, 0)
	}
	c.want(t, "w to p1", "w to p2", "w to p2", "w to p2", "w to p1", "w to p2", "w to p2", "w to p2")
	c.ask("w", 1, 0) // 2 has nothing more
	c.ask("w", 1, 0)
	c.want(t, "w to p1", "w to p1")
}

// Whoever takes many uses up what is known to wait.
func TestMany(t *testing.T) {
	t.Parallel()
	c := newClerk()
	c.waits(1, 5, 1)
	c.waits(2, 5, 1)
	c.ask("a", 100, 0)
	c.ask("b", 3, 0)
	c.ask("c", 100, 0)
	c.ask("d", 1, 0)
	c.want(t, "a to p1", "b to p2", "c to p2", "d to nowhere")
}

// A hint that is not repeated is forgotten, and so is a client that has gone.
func TestWhatIsForgotten(t *testing.T) {
	t.Parallel()
	c := newClerk()
	c.waits(1, 1, 1)
	c.now = c.now.Add(staleAfter + 1)
	if !c.idle(c.now) {
		t.Error("a broker whose hints are old is not idle")
	}
	c.ask("a", 1, time.Minute)
	c.ask("b", 1, time.Minute)
	c.unpoll("a")
	c.waits(2, 1, 1)
	c.want(t, "b to p2")
	if c.idle(c.now) {
		t.Error("a broker with a hint is idle")
	}
}

// A later hint replaces an earlier one.
func TestHintsReplaceEachOther(t *testing.T) {
	t.Parallel()
	c := newClerk()
	c.waits(1, 3, 1)
	c.waits(1, 1, 1)
	c.ask("a", 1, 0)
	c.ask("b", 1, 0)
	c.want(t, "a to p1", "b to nowhere")
}
