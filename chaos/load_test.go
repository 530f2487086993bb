package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// server is what a load runs on: a node, or a cluster of them.
type server interface {
	Import(jobs []map[string]any) (good int, firstBad string, err error)
	Executions(job string) ([]Record, error)
	Post(path string, body any, want int) error
	Log() string
}

// load is jobs that run, and what the harness knows of them.
type load struct {
	t       *testing.T
	on      server
	ledger  *Ledger
	history check.History
	random  *rand.Rand
	rate    float64 // deliveries a second
	seed    int
}

// newLoad prepares a load. BELFRY_CHAOS_SEED replays when its faults happen.
func newLoad(t *testing.T, on server) *load {
	t.Helper()
	seed := envInt(t, "BELFRY_CHAOS_SEED", int(time.Now().UnixNano()&0xFFFFFF))
	t.Logf("BELFRY_CHAOS_SEED=%d", seed)
	ledger, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	return &load{t: t, on: on, ledger: ledger, history: check.History{InFlight: slow(t, 2*time.Second), TTL: TTL}, random: rand.New(rand.NewPCG(uint64(seed), 1)), seed: seed}
}

// add imports jobs whose phases are spread evenly.
func (l *load) add(name string, n int, every time.Duration, target string) {
	l.t.Helper()
	l.register(name, n, every, every, target)
}

// together imports jobs that are all due at the same instants.
func (l *load) together(name string, n int, every time.Duration, target string) *instants {
	l.t.Helper()
	return &instants{l.register(name, n, every, 0, target), every}
}

// instants are those at which jobs are due.
type instants struct {
	first time.Time
	every time.Duration
}

// wait waits for a moment so long after an instant that has not come yet.
func (i *instants) wait(offset time.Duration) {
	at := i.first.Add(offset)
	for at.Before(time.Now()) {
		at = at.Add(i.every)
	}
	<-time.After(time.Until(at))
}

// register imports jobs whose phases are spread evenly over a time. It says when
// the first one is due first.
func (l *load) register(name string, n int, every, spread time.Duration, target any) time.Time {
	l.t.Helper()
	return l.registerWith(name, n, every, spread, target, nil)
}

// registerWith is register with more fields of the jobs.
func (l *load) registerWith(name string, n int, every, spread time.Duration, target any, more map[string]any) time.Time {
	l.t.Helper()
	start := time.Now().Add(slow(l.t, 2*time.Second)).Truncate(time.Second).UTC()
	var jobs []map[string]any
	for i := range n {
		first := start.Add(spread * time.Duration(i) / time.Duration(n)).Truncate(time.Millisecond)
		id := fmt.Sprintf("%s-%03d", name, i)
		job := map[string]any{
			"job_id": id, "schedule_expr": "@every " + every.String(), "starts_at": first.Format(time.RFC3339Nano), "target": target, "timeout": "60s",
		}
		maps.Copy(job, more)
		jobs = append(jobs, job)
		l.history.Jobs = append(l.history.Jobs, check.Once(id, check.Interval{First: first, Every: every}))
	}
	good, bad, err := l.on.Import(jobs)
	if err != nil || good != n {
		l.t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, n, bad, err)
	}
	l.rate += float64(n) / every.Seconds()
	return start
}

// flow waits for so many more deliveries.
func (l *load) flow(n int) {
	l.t.Helper()
	if !l.ledger.WaitFor(l.ledger.Len()+n, slow(l.t, time.Minute)) {
		l.t.Fatalf("deliveries have stopped at %d\n%s", l.ledger.Len(), l.on.Log())
	}
}

// anywhere waits for a moment anywhere in the next second of work.
func (l *load) anywhere() {
	l.t.Helper()
	second := int(l.rate)
	l.flow(second/2 + l.random.IntN(max(second, 1)))
}

// seconds waits while about so many seconds of work are done.
func (l *load) seconds(n float64) {
	l.t.Helper()
	l.flow(int(l.rate * n))
}

// caughtUp waits until every slot up to a moment was delivered, of the jobs that
// have all of them delivered, whenever that is.
func (l *load) caughtUp(to time.Time) {
	l.t.Helper()
	eventually(l.t, "all that was due has come", func() bool {
		receipts, _ := l.ledger.Receipts()
		came := map[string]map[string]bool{}
		for _, r := range receipts {
			if came[r.Job] == nil {
				came[r.Job] = map[string]bool{}
			}
			came[r.Job][r.Execution] = true
		}
		for _, j := range l.history.Jobs {
			if deliversAll(j) && len(came[j.ID]) < len(j.Ops[0].Schedule.Due(time.Time{}, to)) {
				return false
			}
		}
		return true
	})
}

// deliversAll tells that a job has every slot delivered, whatever outage of a
// scenario it was missed in.
func deliversAll(j check.Job) bool {
	p := j.CatchUp
	return p == nil || p.Policy == check.All && p.Max >= 100 && p.Window >= time.Hour
}

// finish ends the load, and checks what was due against what came and what is
// recorded.
func (l *load) finish() {
	l.t.Helper()
	l.end()
	l.judge()
}

// end pauses every job: up to there every slot is due.
func (l *load) end() {
	l.t.Helper()
	pausedAt := l.pause()
	for i := range l.history.Jobs {
		if j := &l.history.Jobs[i]; j.Until.IsZero() {
			j.Until = pausedAt
		}
	}
}

// judge checks what was due against what came and what is recorded, once nothing
// is on the way.
func (l *load) judge() {
	l.t.Helper()
	l.collect()
	l.report()
}

// collect waits until nothing is on the way, and takes what came and what is
// recorded.
func (l *load) collect() {
	l.t.Helper()
	h := &l.history
	h.Records = l.records()
	var broken []string
	h.Receipts, broken = l.ledger.Receipts()
	if len(broken) > 0 {
		l.t.Errorf("%d deliveries have headers that cannot be read: %v", len(broken), broken[:1])
	}
}

// pause pauses every job that still runs and returns when it began: up to there
// every slot is due.
func (l *load) pause() time.Time {
	l.t.Helper()
	began := time.Now()
	for _, j := range l.history.Jobs {
		if !j.Until.IsZero() {
			continue
		}
		if err := l.on.Post("/v1/jobs/"+j.ID+"/pause", map[string]any{"reason": "the end of the test"}, 200); err != nil {
			l.t.Fatal(err)
		}
	}
	return began
}

// quiet is how long after the last execution has ended its record may come.
const quiet = 2 * time.Second

// records reads the records of all jobs once nothing is on the way.
func (l *load) records() map[string][]Record {
	l.t.Helper()
	limit := time.After(slow(l.t, 2*time.Minute))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for jobs := l.history.Jobs; len(jobs) > 0; {
		records := l.executions(jobs[0].ID)
		if settled(records) {
			jobs = jobs[1:]
			continue
		}
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("job %s is not quiet: %+v", jobs[0].ID, records[0])
		}
	}
	<-time.After(quiet)
	out := map[string][]Record{}
	for _, j := range l.history.Jobs {
		out[j.ID] = l.executions(j.ID)
		if len(j.Ops) == 1 {
			out[j.ID] = dropPaused(out[j.ID])
		}
	}
	return out
}

func (l *load) executions(job string) []Record {
	l.t.Helper()
	records, err := l.on.Executions(job)
	if refused := (*Refused)(nil); errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return nil // whether it should be there the rules know
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return records
}

func settled(records []Record) bool {
	return !slices.ContainsFunc(records, func(r Record) bool {
		return r.Status == "pending" || r.Status == "running" || r.Status == "retrying"
	})
}

// dropPaused leaves the range out that the pause at the end makes.
func dropPaused(records []Record) []Record {
	return slices.DeleteFunc(records, func(r Record) bool { return r.Status == "skipped" && r.Reason == "paused" })
}

func (l *load) report() {
	l.t.Helper()
	h := l.history
	found := h.Check()
	if len(found) > 0 {
		l.t.Error(check.Text(found))
	}
	l.t.Logf("%d faults, %d slots, %d receipts, %d of them repeats, %d findings", len(h.Faults), h.Slots(), len(h.Receipts), h.Repeats(), len(found))
	if h.OnTime > 0 {
		l.t.Logf("late outside faults: %s", check.Spread(h.Lateness()))
	}
}
