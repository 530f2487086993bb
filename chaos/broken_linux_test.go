package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// cycle is a short scenario with a fault, on nodes of one build. It ends when all
// that is to be judged is collected.
type cycle func(t *testing.T, bin string) *load

// mostCycles is how many a build without a guard is given.
const mostCycles = 20

// broken wants a build without a guard to be found out by one of some rules, and
// nothing to be found of the whole build in the same cycle.
//
// BELFRY_CHAOS_CONTROLS sets how often the whole build runs it (1).
func broken(t *testing.T, tag string, run cycle, rules ...string) {
	t.Helper()
	whole, err := Built()
	if err != nil {
		t.Fatal(err)
	}
	without, err := Built("-tags", tag)
	if err != nil {
		t.Fatal(err)
	}
	for n := range envInt(t, "BELFRY_CHAOS_CONTROLS", 1) {
		if found := judged(t, fmt.Sprintf("whole-%d", n+1), whole, run); len(found) > 0 {
			t.Fatalf("of the whole build, too: %s", check.Text(found))
		}
	}
	for n := range mostCycles {
		found := judged(t, fmt.Sprintf("%s-%d", tag, n+1), without, run)
		if slices.ContainsFunc(found, func(f check.Finding) bool { return slices.Contains(rules, f.Rule) }) {
			t.Logf("%s is found out in cycle %d: %s", tag, n+1, check.Text(found))
			return
		}
		if t.Failed() {
			return
		}
	}
	t.Errorf("%s passes %d cycles", tag, mostCycles)
}

// judged is what the rules find of one cycle.
func judged(t *testing.T, name, bin string, run cycle) (found []check.Finding) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		h := run(t, bin).history
		found = h.Check()
		t.Logf("%d slots, %d receipts, %d of them repeats, %d findings", h.Slots(), len(h.Receipts), h.Repeats(), len(found))
	})
	return found
}

// TestBrokenClock: without a look at the clock, what is armed when its node is
// killed is sent as soon as that is back: before its time, or before its backoff
// is over.
func TestBrokenClock(t *testing.T) {
	t.Parallel()
	broken(t, "belfry_no_clock", func(t *testing.T, bin string) *load {
		node, l := alone(t, &Process{Bin: bin, DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
		l.history.OnTime, l.history.Recovery = slow(t, time.Second), slow(t, RecoveryBound)
		l.add("tick", 50, time.Second, l.ledger.URL)
		backedOff := l.failOnce(5, 4*time.Second)
		l.seconds(2)
		l.killedAlone(node)
		l.seconds(5)
		l.end()
		l.history.Jobs = append(l.history.Jobs, backedOff...)
		l.collect()
		return l
	}, "C2", "C11")
}

// failOnce registers jobs that are due once, soon, fail, and are tried again so
// much later.
func (l *load) failOnce(n int, again time.Duration) (all []check.Job) {
	l.t.Helper()
	at := time.Now().Add(time.Second).Truncate(time.Millisecond).UTC()
	var jobs []map[string]any
	for i := range n {
		id := fmt.Sprint("fails-", i)
		jobs = append(jobs, map[string]any{
			"job_id": id, "schedule_expr": at.Format(time.RFC3339Nano), "target": l.ledger.At(Script{Status: http.StatusServiceUnavailable, UpTo: 1}),
			"retry": map[string]any{"max_attempts": 2, "initial_backoff": again.String(), "max_backoff": again.String(), "jitter": 0},
		})
		j := check.Once(id, check.At{Instant: at})
		j.Until, j.MayFail, j.Retry = at.Add(time.Millisecond), true, &check.Retry{MaxAttempts: 2, Initial: again, Multiplier: 1, Max: again}
		all = append(all, j)
	}
	if good, bad, err := l.on.Import(jobs); err != nil || good != n {
		l.t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, n, bad, err)
	}
	return all
}

// TestBrokenWait: without the wait for the store, what was acknowledged while the
// database was silent is lost when the node is killed then.
func TestBrokenWait(t *testing.T) {
	t.Parallel()
	const callers, silence = 16, time.Second
	broken(t, "belfry_no_wait", func(t *testing.T, bin string) *load {
		c, at := newProxiedNodes(t, bin, 1)
		n, l := c.All[0], c.load
		proxy := c.proxy[n]
		jobs := make([]check.Job, callers)
		var all sync.WaitGroup
		f := Fault{Kind: Killed, Node: n.Name, At: time.Now()}
		proxy.Pause()
		for i := range callers {
			all.Go(func() { jobs[i] = l.ask(&n.Process, fmt.Sprint("job-", i), at) })
		}
		<-time.After(silence)
		n.Kill()
		proxy.CloseAll() // what it holds never arrives
		proxy.Resume()
		f.End = time.Now()
		c.Start(n)
		all.Wait()
		l.history.Faults, l.history.Jobs = append(l.history.Faults, f), append(l.history.Jobs, jobs...)
		l.ranOut()
		l.history.Takeovers = c.Takeovers()
		l.collect()
		return l
	}, "C1", "C17")
}

// TestBrokenFence: a node's writes are held up on their way until another node
// owns what it had, and has delivered what was due; then they arrive. Without the
// fence they put rows back that are another's by then, and whoever loads these
// delivers again.
func TestBrokenFence(t *testing.T) {
	t.Parallel()
	const jobs, every = 40, 12 * time.Second
	broken(t, "belfry_no_fence", func(t *testing.T, bin string) *load {
		c, at := newProxiedNodes(t, bin, 2)
		former, l := c.All[0], c.load
		slots := l.together("slot", jobs, every, at)
		slots.wait(-700 * time.Millisecond) // just before they are armed
		come := l.ledger.Len()
		over := l.hit(CutOff, former)
		c.proxy[former].Pause()
		c.Reached = func(n *Node) bool { return n != former }
		c.WaitTaken(former, slow(t, RecoveryBound))
		l.flow(come + jobs - l.ledger.Len()) // what others own is there at its instant
		c.proxy[former].Resume()
		over()
		c.Reached = nil
		l.recovered(c.Nodes)
		l.flow(jobs)
		l.end()
		l.history.Takeovers = c.Takeovers()
		l.collect()
		return l
	}, "C1", "C4", "C5", "C6", "C14", "C16", "C17")
}
