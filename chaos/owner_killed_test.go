package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(cassandra.Tests(m), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// TestOwnerKilled: 500 executions a second on the embedded store, and the node
// is killed in the middle, again and again. No occurrence is without its record,
// none has a second id, and what comes twice was in flight at a kill and keeps
// its key.
//
// BELFRY_CHAOS_KILLS sets how often (20), BELFRY_CHAOS_SEED replays a run.
func TestOwnerKilled(t *testing.T) {
	node := &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}}
	kills := envInt(t, "BELFRY_CHAOS_KILLS", 20)
	underLoad(t, node, 500, kills, func() {
		node.Kill()
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

// underLoad runs so many jobs a second on a node, lets a fault happen again and
// again, and checks what was due against what came and what is recorded.
func underLoad(t *testing.T, node *Process, jobs, faults int, fault func()) {
	t.Helper()
	const every = time.Second
	seed := envInt(t, "BELFRY_CHAOS_SEED", int(time.Now().UnixNano()&0xFFFFFF))
	t.Logf("BELFRY_CHAOS_SEED=%d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	ledger, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	startNode(t, node)
	intervals := registerIntervals(t, node, ledger, jobs, every)
	h := History{InFlight: 2 * time.Second}
	for range faults {
		// Anywhere in the next second of work.
		if !ledger.WaitFor(ledger.Len()+jobs/2+r.IntN(jobs), time.Minute) {
			t.Fatalf("deliveries have stopped at %d\n%s", ledger.Len(), node.Log())
		}
		h.Kills = append(h.Kills, Kill{time.Now()})
		fault()
	}
	if !ledger.WaitFor(ledger.Len()+2*jobs, time.Minute) {
		t.Fatalf("deliveries have stopped at %d\n%s", ledger.Len(), node.Log())
	}
	pausedAt := pauseAll(t, node, jobs)
	for i := range intervals {
		intervals[i].Until = pausedAt
	}
	h.Jobs = intervals
	h.Records = quietRecords(t, node, intervals)
	var broken []string
	h.Receipts, broken = ledger.Receipts()
	if len(broken) > 0 {
		t.Errorf("%d deliveries have headers that cannot be read: %v", len(broken), broken[:1])
	}
	report(t, h)
}

// startNode builds and starts a node that ends with the test.
func startNode(t *testing.T, node *Process) {
	t.Helper()
	bin, err := Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	node.Bin, node.Listen = bin, freeAddr(t)
	t.Cleanup(node.Kill)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
}

// registerIntervals imports jobs whose phases are spread evenly.
func registerIntervals(t *testing.T, node *Process, ledger *Ledger, n int, every time.Duration) []Interval {
	t.Helper()
	start := time.Now().Add(2 * time.Second).Truncate(time.Second).UTC()
	var jobs []map[string]any
	var out []Interval
	for i := range n {
		first := start.Add(every * time.Duration(i) / time.Duration(n)).Truncate(time.Millisecond)
		id := fmt.Sprintf("tick-%03d", i)
		jobs = append(jobs, map[string]any{
			"job_id": id, "schedule_expr": "@every " + every.String(), "starts_at": first.Format(time.RFC3339Nano), "target": ledger.URL,
		})
		out = append(out, Interval{Job: id, First: first, Every: every})
	}
	good, bad, err := node.Import(jobs)
	if err != nil || good != n {
		t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, n, bad, err)
	}
	return out
}

// pauseAll pauses every job, in pages, and returns when it began: up to there
// every slot is due.
func pauseAll(t *testing.T, node *Process, jobs int) time.Time {
	t.Helper()
	began := time.Now()
	for i := range jobs {
		if err := node.Post(fmt.Sprintf("/v1/jobs/tick-%03d/pause", i), map[string]any{"reason": "the end of the test"}, 200); err != nil {
			t.Fatal(err)
		}
	}
	return began
}

// quietRecords reads the records of all jobs once nothing is on the way.
func quietRecords(t *testing.T, node *Process, jobs []Interval) map[string][]Record {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	out := map[string][]Record{}
	for i := 0; i < len(jobs); {
		records, err := node.Executions(jobs[i].Job)
		if err != nil {
			t.Fatal(err)
		}
		if !settled(records) {
			if time.Now().After(limit) {
				t.Fatalf("job %s is not quiet: %+v", jobs[i].Job, records[0])
			}
			continue
		}
		out[jobs[i].Job] = dropPaused(records)
		i++
	}
	return out
}

func settled(records []Record) bool {
	for _, r := range records {
		switch r.Status {
		case "pending", "running", "retrying":
			return false
		}
	}
	return true
}

// dropPaused leaves the range out that the pause at the end makes.
func dropPaused(records []Record) []Record {
	var out []Record
	for _, r := range records {
		if r.Status != "skipped" || r.Reason != "paused" {
			out = append(out, r)
		}
	}
	return out
}

func report(t *testing.T, h History) {
	t.Helper()
	found := h.Check()
	for i, f := range found {
		if i == 20 {
			t.Errorf("… and %d findings more", len(found)-i)
			break
		}
		t.Error(f)
	}
	slots := 0
	for _, j := range h.Jobs {
		slots += len(j.slots())
	}
	t.Logf("%d kills, %d slots, %d receipts, %d of them repeats, %d findings", len(h.Kills), slots, len(h.Receipts), h.Repeats(), len(found))
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func envInt(t *testing.T, name string, def int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
