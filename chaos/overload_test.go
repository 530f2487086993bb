package chaos

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestOverload: several times the rated load, a tenth of it for a host that is slow,
// and callers who register and trigger jobs all the time. Each caller has an
// answer: done, or that it is too much now; none is left waiting. What was
// acknowledged runs, no lease is lost, memory stays bounded, and what has piled up
// is gone within twice the time that it took to pile up.
//
// BELFRY_CHAOS_OVERLOAD sets how many times the rated load (4), and
// BELFRY_CHAOS_OVERLOAD_SECONDS for how long (3). It does not run beside others: it
// takes all of a small machine.
func TestOverload(t *testing.T) {
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	overloaded(l, 500, node)
}

// TestOverloadOnNodes is the same on three nodes with one Cassandra.
func TestOverloadOnNodes(t *testing.T) {
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.history.OnTime = 0 // what is too much is late
	before := len(c.Takeovers())
	overloaded(l, 150, c.processes()...)
	if taken := c.Takeovers()[before:]; len(taken) > 0 {
		t.Errorf("leases were lost: %v", taken)
	}
}

// overload is what is done to nodes at once.
type overload struct {
	*load
	nodes []*Process
	ends  time.Time // nothing is due, and nobody calls, from then on

	mu        sync.Mutex
	asked     []check.Job
	triggered []string // executions that were acknowledged
	answers   map[int]int
	slowest   time.Duration
	most      []float64 // resident bytes of each node
}

// overloaded brings the rated load of so many executions a second onto nodes, and
// then a multiple of it.
func overloaded(l *load, rated int, nodes ...*Process) {
	l.t.Helper()
	times, lasts := envInt(l.t, "BELFRY_CHAOS_OVERLOAD", 4), time.Duration(envInt(l.t, "BELFRY_CHAOS_OVERLOAD_SECONDS", 3))*time.Second
	o := &overload{load: l, nodes: nodes, answers: map[int]int{}, most: make([]float64, len(nodes))}
	owners := o.owners()
	o.registerUntil(l.ends(rated, 4*time.Second), "steady", rated, l.ledger.URL)
	l.seconds(2)
	steady := o.resident()
	o.ends = l.ends(times*rated, lasts)
	slowHost, err := l.ledger.Also(newHost(l.t), Script{After: time.Second})
	if err != nil {
		l.t.Fatal(err)
	}
	o.registerByHand(slowHost)
	slowOnes := times * rated / 10
	o.registerUntil(o.ends, "slow", slowOnes, slowHost)
	o.registerUntil(o.ends, "burst", times*rated-slowOnes, l.ledger.URL)
	watched, stop := o.watch(), o.call(16)
	<-time.After(time.Until(o.ends))
	stop()
	o.drained(2 * lasts)
	watched()
	for i, most := range o.most {
		bound := 1.5*steady[i] + 512<<20
		l.t.Logf("node %d: resident %.0f MiB under the rated load, and %.0f MiB at most", i+1, steady[i]/(1<<20), most/(1<<20))
		if most == 0 || most > bound {
			l.t.Errorf("node %d has had %.0f bytes resident: at most %.0f, and they are known, is promised", i+1, most, bound)
		}
	}
	if after := o.owners(); !slices.Equal(owners, after) {
		l.t.Errorf("partitions have moved: %v, and before %v", after, owners)
	}
	o.judgeAll()
}

func (o *overload) owners() []Owner {
	o.t.Helper()
	owners, err := o.nodes[0].Owners()
	if err != nil {
		o.t.Fatal(err)
	}
	return owners
}

// resident is the memory of each node.
func (o *overload) resident() []float64 {
	o.t.Helper()
	var all []float64
	for _, n := range o.nodes {
		is, err := metrics(n, growing[0])
		if err != nil {
			o.t.Fatal(err)
		}
		all = append(all, is...)
	}
	return all
}

// watch notes the most memory that each node has, until done is called.
func (o *overload) watch() (done func()) {
	return o.spawn(len(o.nodes), 200*time.Millisecond, func(i, _ int) {
		if is, err := metrics(o.nodes[i], growing[0]); err == nil { // one that is busy is asked again
			o.most[i] = max(o.most[i], is[0])
		}
	})
}

// call has callers register jobs and trigger a slow one, each again as soon as it
// has its answer and some time has gone by, until done is called.
func (o *overload) call(callers int) (done func()) {
	return o.spawn(callers, 50*time.Millisecond, func(i, turn int) {
		node := o.nodes[(i+turn)%len(o.nodes)]
		began := time.Now()
		j, err := o.askFor(node, fmt.Sprintf("asked-%d-%d", i, turn), o.ledger.URL, 3*time.Second)
		o.answered(began, http.StatusCreated, err)
		j.Until = j.Ops[0].Schedule.(check.At).Instant.Add(time.Millisecond)
		var run struct {
			ID string `json:"execution_id"`
		}
		began = time.Now()
		err = node.send(http.MethodPost, "/v1/jobs/"+slowJob+"/trigger", rand.Text(), struct{}{}, http.StatusAccepted, &run)
		o.answered(began, http.StatusAccepted, err)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked = append(o.asked, j)
		if err == nil {
			o.triggered = append(o.triggered, run.ID)
		}
	})
}

// slowJob is due next year, and what callers trigger: soon it has as many
// unfinished executions as a job may have.
const slowJob = "by-hand"

func (o *overload) registerByHand(target string) {
	o.t.Helper()
	at := time.Now().AddDate(1, 0, 0).Truncate(time.Second).UTC()
	job := map[string]any{"job_id": slowJob, "schedule_expr": at.Format(time.RFC3339), "target": target}
	if good, bad, err := o.on.Import([]map[string]any{job}); err != nil || good != 1 {
		o.t.Fatalf("import: first refusal %q, %v", bad, err)
	}
	j := check.Once(slowJob, check.At{Instant: at})
	j.Until = o.ends
	o.history.Jobs = append(o.history.Jobs, j)
}

// answered counts an answer. Whatever is neither a yes nor a wait is wrong.
func (o *overload) answered(began time.Time, want int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slowest = max(o.slowest, time.Since(began))
	refused := (*Refused)(nil)
	switch {
	case err == nil:
		o.answers[want]++
	case errors.As(err, &refused) && (refused.Code == http.StatusTooManyRequests || refused.Code == http.StatusServiceUnavailable):
		o.answers[refused.Code]++
	default:
		o.t.Errorf("an answer after %s: %v", time.Since(began), err)
	}
}

// spawn does something again and again, in so many goroutines, with a pause after
// each time, until done is called.
func (o *overload) spawn(count int, pause time.Duration, do func(i, turn int)) (done func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			for turn := 0; ; turn++ {
				do(i, turn)
				select {
				case <-time.After(pause):
				case <-stop:
					return
				}
			}
		})
	}
	return func() { close(stop); all.Wait() }
}

// drained waits until all that was due, or was acknowledged, has come.
func (o *overload) drained(within time.Duration) {
	o.t.Helper()
	o.history.Jobs = append(o.history.Jobs, o.asked...)
	all := o.history.Slots() + len(o.triggered)
	left := all - o.ledger.Len()
	in := o.ledger.WaitFor(all, time.Until(o.ends.Add(slow(o.t, within))))
	o.t.Logf("at the end of the overload %d of %d executions were left, and after %s %d", left, all, time.Since(o.ends).Round(time.Millisecond), all-o.ledger.Len())
	if !in {
		o.t.Errorf("what has piled up is not gone after %s", slow(o.t, within))
	}
	o.t.Logf("answers by status: %v; the slowest took %s", o.answers, o.slowest.Round(time.Millisecond))
}

// judgeAll judges what was due, and wants all that was triggered.
func (o *overload) judgeAll() {
	o.t.Helper()
	o.judge()
	has := map[string]string{}
	for _, r := range o.history.Records[slowJob] {
		has[r.ExecutionID] = r.Status
	}
	for _, id := range o.triggered {
		if has[id] != "succeeded" {
			o.t.Errorf("%s was acknowledged, and it is %q", id, has[id])
		}
	}
	if len(o.triggered) == 0 || o.answers[http.StatusCreated] == 0 {
		o.t.Error("nothing was acknowledged")
	}
}
