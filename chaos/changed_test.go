package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestChangedUnderKills: jobs are registered, updated, paused, resumed and deleted
// at random while the one node is killed again and again. What was acknowledged
// holds: nothing of a job that is deleted or paused is sent a second after the
// answer, nothing of an old schedule after that of a new one, and what got no
// answer is done as a whole or not at all.
//
// BELFRY_CHAOS_KILLS sets how often (5).
func TestChangedUnderKills(t *testing.T) {
	t.Parallel()
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	l.history.OnTime, l.history.Recovery = slow(t, 2*time.Second), slow(t, RecoveryBound)
	x := newChanges(l, 12, node)
	for range envInt(t, "BELFRY_CHAOS_KILLS", 5) {
		l.flow(20 + l.random.IntN(20))
		l.killedAlone(node)
	}
	l.flow(40)
	x.end()
	l.judge()
}

// TestChangedOnNodes is the same through all gateways of three nodes, any of which
// is killed.
//
// BELFRY_CHAOS_KILLS sets how often (5).
func TestChangedOnNodes(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	x := newChanges(l, 12, c.processes()...)
	for range envInt(t, "BELFRY_CHAOS_KILLS", 5) {
		l.flow(20 + l.random.IntN(20))
		n := c.All[l.random.IntN(len(c.All))]
		over := l.hit(Killed, n)
		n.Kill()
		over()
		c.WaitTaken(n, slow(t, RecoveryBound))
		l.join(c, n)
		l.recovered(c)
	}
	l.flow(40)
	x.end()
	l.history.Takeovers = c.Takeovers()
	l.judge()
}

// processes are the nodes as callers know them: by their addresses.
func (c *Nodes) processes() (out []*Process) {
	for _, n := range c.All {
		out = append(out, &Process{Listen: n.Listen})
	}
	return out
}

// effective is how long after its answer a change may be on its way to who sends.
const effective = time.Second

// changes are callers who change jobs, each its own, through any node. They ask
// once: one who asks again knows more.
type changes struct {
	l     *load
	nodes []*Process
	stop  chan struct{}
	work  sync.WaitGroup

	mu   sync.Mutex
	jobs []*changing
}

// changing is a job of one caller.
type changing struct {
	check.Job
	random *rand.Rand
	now    check.Verb // the last one that was acknowledged
	phase  int
	doubt  bool // an operation has no answer; there is no other until the end
}

func newChanges(l *load, callers int, nodes ...*Process) *changes {
	x := &changes{l: l, nodes: nodes, stop: make(chan struct{})}
	for i := range callers {
		r := rand.New(rand.NewPCG(l.random.Uint64(), uint64(i)))
		x.work.Go(func() { x.call(i, r) })
	}
	return x
}

// call changes one job after another: the next one when it does not know what
// became of the last one.
func (x *changes) call(caller int, r *rand.Rand) {
	for n := 0; ; n++ {
		j := &changing{Job: check.Job{ID: fmt.Sprintf("changed-%d-%d", caller, n)}, random: r}
		x.mu.Lock()
		x.jobs = append(x.jobs, j)
		x.mu.Unlock()
		for !j.doubt {
			x.change(j, j.next())
			select {
			case <-x.stop:
				return
			case <-time.After(effective + time.Duration(100+r.IntN(2000))*time.Millisecond):
			}
		}
	}
}

// next is an operation that the jobs as they are allow.
func (j *changing) next() check.Verb {
	verbs := []check.Verb{check.Update, check.Pause, check.Delete}
	switch j.now {
	case "", check.Delete:
		return check.Register
	case check.Pause:
		verbs = []check.Verb{check.Resume, check.Resume, check.Delete}
	}
	return verbs[j.random.IntN(len(verbs))]
}

// change asks for one thing, and notes what is known of it.
func (x *changes) change(j *changing, verb check.Verb) {
	op := check.Op{Verb: verb}
	method, path, want := http.MethodPost, "/v1/jobs/"+j.ID, http.StatusOK
	body := map[string]any{}
	switch verb {
	case check.Register, check.Update:
		const phases = 4 // of a second
		j.phase = (j.phase + 1 + j.random.IntN(phases-1)) % phases
		first := time.Now().Add(-time.Minute).Truncate(time.Minute).Add(time.Duration(j.phase) * time.Second / phases).UTC()
		op.Schedule = check.Interval{First: first, Every: time.Second}
		body["schedule_expr"], body["starts_at"] = "@every 1s", first.Format(time.RFC3339Nano)
		if verb == check.Update {
			method = http.MethodPatch
			break
		}
		path, want = "/v1/jobs", http.StatusCreated
		body["job_id"], body["target"] = j.ID, x.l.ledger.URL
		body["catch_up"] = map[string]any{"policy": check.All, "max": 1000, "window": "1h"}
	case check.Pause, check.Resume:
		path += "/" + string(verb)
	case check.Delete:
		method, want = http.MethodDelete, http.StatusNoContent
	}
	err := x.once(j.random, func(p *Process) error {
		op.Call = time.Now()
		return p.send(method, path, "", body, want, nil)
	})
	op.Return = time.Now()
	if verb != check.Register && verb != check.Resume {
		op.Return = op.Return.Add(effective)
	}
	refused := (*Refused)(nil)
	switch {
	case err == nil:
		j.now = verb
	case errors.As(err, &refused) && refused.Code < http.StatusInternalServerError:
		op.Outcome = check.Rejected
	default:
		op.Outcome, j.doubt = check.Unknown, true
	}
	j.Ops = append(j.Ops, op)
}

// once has any node do something, and another when it was not reached at all.
func (x *changes) once(r *rand.Rand, do func(*Process) error) (err error) {
	for end := time.Now().Add(2 * anyWithin); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		err = do(x.nodes[r.IntN(len(x.nodes))])
		if dial := (*net.OpError)(nil); !errors.As(err, &dial) || dial.Op != "dial" {
			return err
		}
	}
	return err
}

// rest ends the callers, and wants every job to be what was acknowledged last.
func (x *changes) rest() {
	x.l.t.Helper()
	close(x.stop)
	x.work.Wait()
	for _, j := range x.jobs {
		if j.doubt {
			continue
		}
		var job struct{ Status string }
		err := x.once(j.random, func(p *Process) error { _, err := p.get("/v1/jobs/"+j.ID, &job); return err })
		refused := (*Refused)(nil)
		gone := errors.As(err, &refused) && refused.Code == http.StatusNotFound
		switch {
		case gone && (j.now == check.Delete || j.now == ""):
		case err != nil:
			x.l.t.Errorf("%s: %s was acknowledged last, and it is %v", j.ID, j.now, err)
		case (j.now == check.Pause) != (job.Status == "paused"), (j.now == check.Delete) != (job.Status == "deleted"):
			x.l.t.Errorf("%s: %s was acknowledged last, and it is %s", j.ID, j.now, job.Status)
		}
	}
}

// end ends the callers and deletes every job: what is due after that is wrong.
func (x *changes) end() {
	x.l.t.Helper()
	x.rest()
	for _, j := range x.jobs {
		x.change(j, check.Delete)
	}
	<-time.After(2 * effective)
	until := time.Now()
	told := map[check.Outcome]int{}
	for _, j := range x.jobs {
		j.Until = until
		x.l.history.Jobs = append(x.l.history.Jobs, j.Job)
		for _, op := range j.Ops {
			told[op.Outcome]++
		}
	}
	x.l.t.Logf("%d jobs; operations: %d acknowledged, %d refused, %d without an answer", len(x.jobs), told[check.Accepted], told[check.Rejected], told[check.Unknown])
	if told[check.Accepted] == 0 {
		x.l.t.Error("no operation was acknowledged")
	}
}
