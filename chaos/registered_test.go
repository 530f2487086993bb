package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// TestRegisteredUnderKills: jobs are registered by several callers while the node
// is killed again and again. What was acknowledged runs at its instant; what got
// no answer runs or was never there, and is not there by half.
//
// BELFRY_CHAOS_KILLS sets how often (5).
func TestRegisteredUnderKills(t *testing.T) {
	t.Parallel()
	const callers, each = 4, 25 // jobs of one kill
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	l.history.OnTime, l.history.Recovery = slow(t, time.Second), slow(t, RecoveryBound)
	for n := range envInt(t, "BELFRY_CHAOS_KILLS", 5) {
		jobs := make([][]check.Job, callers)
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				for i := range each {
					jobs[c] = append(jobs[c], l.ask(node, fmt.Sprintf("job-%d-%d-%d", n, c, i), l.ledger.URL))
				}
			})
		}
		l.flow(l.random.IntN(callers * each / 4)) // some of them run already
		l.killedAlone(node)
		all.Wait()
		for _, js := range jobs {
			l.history.Jobs = append(l.history.Jobs, js...)
		}
	}
	acknowledged := l.ranOut()
	l.judge()
	t.Logf("%d of %d registrations were acknowledged", acknowledged, len(l.history.Jobs))
	if acknowledged == 0 || acknowledged == len(l.history.Jobs) {
		t.Error("the kills met no registration, or every one")
	}
}

// ranOut waits until every job that is due once is, and tells how many of them
// were acknowledged.
func (l *load) ranOut() (acknowledged int) {
	l.t.Helper()
	var last time.Time
	for i := range l.history.Jobs {
		j := &l.history.Jobs[i]
		if j.Ops[0].Outcome == check.Accepted {
			acknowledged++
		}
		last = j.Ops[0].Schedule.(check.At).Instant
		j.Until = last.Add(time.Millisecond)
	}
	<-time.After(time.Until(last.Add(slow(l.t, time.Second))))
	return acknowledged
}

// ask registers a job that is due once, soon, and says what is known of that. It
// asks once: a caller that asks again knows more.
func (l *load) ask(node *Process, id, target string) check.Job {
	j, _ := l.askFor(node, id, target, 700*time.Millisecond)
	return j
}

// askFor is ask for a job that is due so much later. The error is how it was
// answered, when that was not as it should be.
func (l *load) askFor(node *Process, id, target string, later time.Duration) (check.Job, error) {
	at := time.Now().Add(later).Truncate(time.Millisecond).UTC()
	op := check.Op{Verb: check.Register, Call: time.Now(), Schedule: check.At{Instant: at}}
	err := node.Post("/v1/jobs", map[string]any{"job_id": id, "schedule_expr": at.Format(time.RFC3339Nano), "target": target}, http.StatusCreated)
	op.Return = time.Now()
	if refused := (*Refused)(nil); errors.As(err, &refused) && refused.Code < http.StatusInternalServerError {
		op.Outcome = check.Rejected
	} else if err != nil {
		op.Outcome = check.Unknown
	}
	return check.Job{ID: id, Ops: []check.Op{op}}, err
}
