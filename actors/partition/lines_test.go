package partition

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestLinesKeepTheOrderOfAJob: whatever is added, hurried, taken and refused,
// the changes of a job come out in the order in which they were made, each
// once.
func TestLinesKeepTheOrderOfAJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &linesRun{T: t, queue: newQueue(persistence.Fence{}), last: map[string]int64{}}
		t.Repeat(map[string]func(*rapid.T){
			"execution": func(*rapid.T) { l.add() },
			"command":   func(*rapid.T) { l.queue.lines.hurry(l.add()) },
			"applied":   func(*rapid.T) { l.applied() },
			"refused":   func(*rapid.T) { l.refused() },
			"": func(t *rapid.T) {
				if l.queue.flying == nil {
					l.fly(noLimit)
				}
				if err := l.queue.check(); err != nil {
					t.Fatal(err)
				}
			},
		})
		for l.queue.flying != nil {
			l.applied()
		}
		if l.came != l.queue.lines.made {
			t.Fatalf("%d changes were made, and %d came out", l.queue.lines.made, l.came)
		}
	})
}

// linesRun is a queue whose batches are applied or refused by the test.
type linesRun struct {
	*rapid.T
	queue queue
	last  map[string]int64 // number of the last change that came out, by job
	came  int64
}

func (l *linesRun) add() (id string) {
	id = rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(l.T, "job")
	l.queue.lines.add(sized(id, rapid.IntRange(0, 12).Draw(l.T, "rows")))
	return id
}

func (l *linesRun) out(c *change) {
	if c.number <= l.last[c.id] {
		l.Fatalf("change %d of job %s comes after %d", c.number, c.id, l.last[c.id])
	}
	l.last[c.id] = c.number
	l.came++
}

func (l *linesRun) fly(most int) {
	for c := l.queue.lines.idle(); c != nil; c = l.queue.lines.idle() {
		l.out(c)
	}
	l.queue.flying = nil
	if changes, rows := l.queue.lines.take(most, 8); len(changes) > 0 {
		l.queue.flying = &batch{changes: changes, rows: rows}
	}
}

func (l *linesRun) applied() {
	if b := l.queue.flying; b != nil {
		for _, c := range b.changes {
			l.out(c)
		}
	}
	l.fly(noLimit)
}

func (l *linesRun) refused() {
	if b := l.queue.flying; b != nil {
		l.queue.lines.putBack(b.changes)
		l.fly(max(len(b.changes)/2, 1))
	}
}

// sized is a change of a job with so many rows.
func sized(id string, rows int) *change {
	c := &change{id: id}
	for range rows {
		c.row(persistence.Row{JobID: id})
	}
	return c
}

// TestBatchesTakeFromBothLines: while both wait, each gets half of the rows.
func TestBatchesTakeFromBothLines(t *testing.T) {
	for _, test := range []struct {
		name                   string
		commands, executions   int // changes that wait
		commandRows, otherRows int // of each
		rows                   int // of a batch
		want                   string
	}{
		{"equal", 1000, 1000, 2, 2, 100, "50 + 50"},
		{"few commands", 3, 1000, 2, 1, 100, "6 + 94"},
		{"few executions", 1000, 3, 2, 1, 100, "96 + 3"},
		{"large commands", 1000, 1000, 40, 1, 100, "40 + 40"},
		{"larger than a batch", 1000, 1000, 200, 1, 100, "200 + 0"},
		{"and the batch after it", 1000, 1000, 200, 1, 100, "0 + 100"},
		{"only commands", 1000, 0, 2, 0, 100, "100 + 0"},
		{"only executions", 0, 1000, 0, 2, 100, "0 + 100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQueue(persistence.Fence{})
			for i := range test.executions {
				q.lines.add(sized(fmt.Sprint("e", i), test.otherRows))
			}
			for i := range test.commands {
				c := sized(fmt.Sprint("c", i), test.commandRows)
				q.lines.add(c)
				q.lines.hurry(c.id)
			}
			if test.name == "and the batch after it" {
				q.lines.take(noLimit, test.rows)
			}
			changes, _ := q.lines.take(noLimit, test.rows)
			rows := map[byte]int{}
			for _, c := range changes {
				rows[c.id[0]] += c.size()
			}
			if got := fmt.Sprint(rows['c'], " + ", rows['e']); got != test.want {
				t.Errorf("a batch has %s rows, want %s", got, test.want)
			}
		})
	}
}

// slowStore answers each commit after the time that its rows take.
type slowStore struct {
	*world
	perSecond int
	out       *Commit
	until     time.Time
	written   map[string]int // rows of jobs, by id
}

func newSlowStore(t *testing.T, perSecond int) *slowStore {
	s := &slowStore{world: newWorld(t), perSecond: perSecond, written: map[string]int{}}
	s.unchecked = true
	s.fate.commit = func() verdict { return silent }
	s.stalled = func(c Commit) {
		rows := len(c.Batch.Rows) + len(c.Batch.History)
		for _, r := range c.Batch.Rows {
			s.written[r.JobID]++
		}
		s.out, s.until = &c, s.now.Add(time.Duration(rows)*time.Second/time.Duration(s.perSecond))
	}
	return s
}

// pass lets time pass, in steps of 10 ms.
func (s *slowStore) pass(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.advance(10 * time.Millisecond)
		if s.out != nil && !s.now.Before(s.until) {
			c := s.out
			s.out = nil
			s.store.apply(c.Batch)
			s.step(Applied{s.store.fence})
			s.check(Applied{})
		}
	}
}

// register sends the registration of a job that is not due, and returns who
// asked.
func (s *slowStore) register(id string) Ref {
	s.world.register(id, "0 0 1 1 *")
	return s.nextRef
}

// spike registers jobs that are due at one instant, and lets it come.
func (s *slowStore) spike(ids []string) {
	var cmds []*belfryv1.Command
	for _, id := range ids {
		cmds = append(cmds, &belfryv1.Command{Id: id, JobId: id, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: spec("2026-01-01T00:01:00Z")}}})
	}
	s.step(Asked{Ref: 1 << 32, Commands: cmds})
	s.pass(time.Minute)
	if n := s.state.queue.lines.len(); s.answers[1<<32] == nil || n < len(ids)/2 {
		s.t.Fatalf("%d changes wait: no spike", n)
	}
}

// TestSpikeWritesEachJobOnce: when it is registered, when it is armed and when
// it ends. How many are due soon decides how early they are armed, and arming
// one changes how many that are.
func TestSpikeWritesEachJobOnce(t *testing.T) {
	s := newSlowStore(t, 400)
	ids := s.inPartition(600)
	s.spike(ids)
	s.pass(20 * time.Second)
	for _, id := range ids {
		if n := s.written[id]; n != 3 {
			t.Fatalf("job %s was written %d times", id, n)
		}
	}
}

// TestCommandsDoNotWaitForASpike: a command is answered after the batch that is
// out and its own, each of a quarter of a second, however much else waits.
func TestCommandsDoNotWaitForASpike(t *testing.T) {
	s := newSlowStore(t, 400)
	ids := s.inPartition(1000)
	s.spike(ids[:900])
	for _, id := range ids[900:] {
		if s.state.queue.lines.len() == 0 {
			break
		}
		asked, ref := s.now, s.register(id)
		for s.answers[ref] == nil && s.now.Sub(asked) < time.Minute {
			s.pass(10 * time.Millisecond)
		}
		if took := s.now.Sub(asked); took > 600*time.Millisecond {
			t.Errorf("an answer took %s, with %d changes waiting", took, s.state.queue.lines.len())
		}
	}
}

// TestCommandsDoNotStopExecutions: a flood of commands leaves half of the store
// to executions.
func TestCommandsDoNotStopExecutions(t *testing.T) {
	s := newSlowStore(t, 400)
	ids := s.inPartition(5000)
	s.spike(ids[:600])
	flood := ids[600:]
	start := s.now
	for len(s.store.history) < 600 && len(flood) > 0 {
		for range 20 { // twice what the store takes beside executions
			s.register(flood[0])
			flood = flood[1:]
		}
		s.pass(50 * time.Millisecond)
	}
	if n := len(s.store.history); n < 600 {
		t.Errorf("%d of 600 have ended in %s beside a flood of commands", n, s.now.Sub(start))
	}
	if n := len(s.state.queue.lines.commands); n < 500 {
		t.Errorf("%d commands wait: no flood", n)
	}
}
