package chaos

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// diamonds are groups of four jobs: a root that is due each second, two that
// follow it, and one that follows both.
type diamonds struct {
	*load
	n int
}

func newDiamonds(l *load, n int) *diamonds {
	l.t.Helper()
	l.add("root", n, time.Second, l.ledger.URL)
	var jobs []map[string]any
	for i := range n {
		for _, name := range []string{"left", "right", "last"} {
			follows := []string{member("root", i)}
			if name == "last" {
				follows = []string{member("left", i), member("right", i)}
			}
			jobs = append(jobs, map[string]any{"job_id": member(name, i), "depends_on": follows, "target": l.ledger.URL, "timeout": "60s"})
		}
	}
	if good, bad, err := l.on.Import(jobs); err != nil || good != len(jobs) {
		l.t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, len(jobs), bad, err)
	}
	l.rate *= 4
	return &diamonds{l, n}
}

func member(name string, i int) string { return fmt.Sprintf("%s-%03d", name, i) }

// verify: each run of a root that began when all was registered has reached each
// job that follows, once, and in order; and the rules hold for all that came.
func (d *diamonds) verify(since time.Time) {
	d.t.Helper()
	until := d.pause()
	runs := 0
	for i := range d.n {
		roots := slices.DeleteFunc(d.quiet(member("root", i), nil), func(r Record) bool { return r.Range != nil || !r.ScheduledFor.After(since) })
		var want []string
		for _, r := range roots {
			if r.Status != "succeeded" {
				d.t.Errorf("%s is %s: %s", r.ExecutionID, r.Status, r.Reason)
			}
			want = append(want, runPart(r.ExecutionID))
		}
		runs += len(want)
		left, right := byPart(d.quiet(member("left", i), want)), byPart(d.quiet(member("right", i), want))
		last := byPart(d.quiet(member("last", i), want))
		for _, r := range roots {
			part := runPart(r.ExecutionID)
			d.history.Runs = append(d.history.Runs,
				check.Run{Execution: left[part], Upstream: []string{r.ExecutionID}}, check.Run{Execution: right[part], Upstream: []string{r.ExecutionID}},
				check.Run{Execution: last[part], Upstream: []string{left[part], right[part]}})
		}
	}
	d.rules(until)
	receipts, _ := d.ledger.Receipts()
	first := map[string]time.Time{}
	for _, r := range receipts {
		if at, seen := first[r.Execution]; !seen || r.Received.Before(at) {
			first[r.Execution] = r.Received
		}
	}
	d.order(first)
	d.t.Logf("%d runs, %d receipts", runs, len(receipts))
	if runs == 0 {
		d.t.Error("nothing ran")
	}
}

// rules judges the roots by when they are due, and the others by what they follow.
func (d *diamonds) rules(until time.Time) {
	d.t.Helper()
	for i := range d.history.Jobs {
		d.history.Jobs[i].Until = until
	}
	for _, name := range []string{"left", "right", "last"} {
		for i := range d.n {
			d.history.Jobs = append(d.history.Jobs, check.Job{ID: member(name, i), Until: until})
		}
	}
	d.judge()
}

// byPart is the ids of executions by what they have of their run.
func byPart(records []Record) map[string]string {
	out := map[string]string{}
	for _, r := range records {
		out[strings.SplitN(r.ExecutionID, "~", 3)[2]] = r.ExecutionID
	}
	return out
}

// quiet reads the records of a job once they are those of the runs that are
// wanted, each succeeded, and no other; want nil: once nothing is on the way.
func (d *diamonds) quiet(id string, want []string) []Record {
	d.t.Helper()
	limit, tick := time.After(slow(d.t, time.Minute)), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		records := dropPaused(d.executions(id))
		missing, extra := 0, 0
		have := map[string]bool{}
		for _, r := range records {
			part := strings.SplitN(r.ExecutionID, "~", 3)[2]
			if have[part] || r.Status != "succeeded" && slices.Contains(want, part) && settled(records) {
				extra++
			}
			have[part] = true
		}
		for _, w := range want {
			if !have[w] {
				missing++
			}
		}
		if settled(records) && missing == 0 && extra == 0 {
			return records
		}
		select {
		case <-tick.C:
		case <-limit:
			d.t.Fatalf("%s: %d runs are missing, %d are wrong or come twice: %+v", id, missing, extra, records[:min(3, len(records))])
		}
	}
}

// runPart is what the execution of a dependent has in its id of a run: the hash of
// the id of the run's first execution, and its instant.
func runPart(root string) string {
	sum := sha256.Sum256([]byte(root))
	return "d" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])) + root[strings.LastIndex(root, "~"):]
}

// order: nothing came before what it follows.
func (d *diamonds) order(first map[string]time.Time) {
	d.t.Helper()
	at := map[string]time.Time{} // by job and instant
	for id, t := range first {
		at[id[:strings.Index(id, "~")]+id[strings.LastIndex(id, "~"):]] = t
	}
	for key, t := range at {
		job, instant, _ := strings.Cut(key, "~")
		name, number, _ := strings.Cut(job, "-")
		for _, up := range map[string][]string{"left": {"root"}, "right": {"root"}, "last": {"left", "right"}}[name] {
			if before, seen := at[up+"-"+number+"~"+instant]; !seen || t.Before(before) {
				d.t.Errorf("%s came at %s, and %s at %s", key, t, up, before)
			}
		}
	}
}

// TestDependenciesKilled: the one node is killed again and again under diamonds
// of jobs: the owners of both sides of each edge die together.
//
// BELFRY_CHAOS_KILLS sets how often (5).
func TestDependenciesKilled(t *testing.T) {
	t.Parallel()
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	d := newDiamonds(l, 20)
	since := time.Now()
	for range envInt(t, "BELFRY_CHAOS_KILLS", 5) {
		d.anywhere()
		d.killedAlone(node)
	}
	d.seconds(2)
	d.verify(since)
}

// TestDependenciesOnNodes: three nodes, and one of them is killed again and
// again: it owns one side of some edges, the other of others, now and then the
// system partition.
//
// BELFRY_CHAOS_KILLS sets how often (5).
func TestDependenciesOnNodes(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	d := newDiamonds(onNodes(t, c), 10)
	since := time.Now()
	for i := range envInt(t, "BELFRY_CHAOS_KILLS", 5) {
		d.anywhere()
		n := c.All[i%len(c.All)]
		over := d.hit(Killed, n)
		n.Kill()
		over()
		c.WaitTaken(n, slow(t, RecoveryBound))
		d.join(c, n)
	}
	d.seconds(2)
	d.history.Takeovers = c.Takeovers()
	d.verify(since)
}
