package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// inPartition returns n job ids of the world's partition.
func (w *world) inPartition(n int) []string {
	var ids []string
	for i := 0; len(ids) < n; i++ {
		if id := "job-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)); job.PartitionOf(id, 16) == w.cfg.Partition {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestMalformedRowsAmongGoodOnes: what cannot be read marks its own job; the
// others run (NousResearch/hermes-agent#61723, quartz-scheduler/quartz#48).
func TestMalformedRowsAmongGoodOnes(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(208)
	good, bad := ids[:200], ids[200:]
	for _, id := range ids {
		w.register(id, "* * * * *")
	}
	w.crash()
	spoil := []func(*persistence.Row){
		func(r *persistence.Row) { r.State = []byte{0xff, 0xff} },
		func(r *persistence.Row) { r.Spec = []byte("not a spec") },
		func(r *persistence.Row) {
			r.Spec = edited(t, r.Spec, func(s *belfryv1.JobSpec) { s.Timing.Expr = "every 7 minuts" })
		},
		func(r *persistence.Row) {
			r.Spec = edited(t, r.Spec, func(s *belfryv1.JobSpec) { s.Timing.Zone = "Atlantis/City" })
		},
		func(r *persistence.Row) { r.Status = "dancing" },
		func(r *persistence.Row) { r.Spec = nil },
	}
	for i, change := range spoil {
		k := [2]string{bad[i], ""}
		row := w.store.rows[k]
		change(&row)
		w.store.rows[k] = row
	}
	// A next run that is missing or absurd is derived again, and no fault.
	for i, next := range []int64{0, -62135596800000} {
		k := [2]string{bad[6+i], ""}
		row := w.store.rows[k]
		row.NextRun = next
		w.store.rows[k] = row
	}
	w.boot()
	w.advance(2 * time.Minute)
	got := map[string]int{}
	for _, d := range w.deliveries {
		ref, _ := job.ParseExecutionID(d.id)
		got[ref.JobID]++
	}
	for _, id := range slices.Concat(good, bad[6:]) {
		if got[id] != 2 {
			t.Errorf("job %s ran %d times", id, got[id])
		}
	}
	for i, id := range bad[:6] {
		if j := w.state.jobs[id]; j.status != job.Faulty || j.past.reason == "" || got[id] != 0 {
			t.Errorf("bad job %d: %s, reason %q, ran %d times", i, j.status, j.past.reason, got[id])
		}
	}
	if n := w.state.Stats(w.now).Jobs[job.Faulty]; n != 6 {
		t.Errorf("%d jobs are counted as faulty", n)
	}
	// A faulty job can be registered anew, and runs.
	before := len(w.deliveries)
	for _, id := range bad[:6] {
		if a := w.register(id, "* * * * *"); a.GetJob().GetStatus() != "active" {
			t.Errorf("registered again: %v", a)
		}
	}
	w.advance(time.Minute)
	if n := len(w.deliveries) - before; n != 208 {
		t.Errorf("%d deliveries in the minute after", n)
	}
}

func edited(t *testing.T, spec []byte, edit func(*belfryv1.JobSpec)) []byte {
	sp := new(belfryv1.JobSpec)
	if err := proto.Unmarshal(spec, sp); err != nil {
		t.Fatal(err)
	}
	edit(sp)
	return encode(sp)
}

// TestPanicOverOneJob: it is marked, its neighbour runs.
func TestPanicOverOneJob(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(2)
	w.register(ids[0], "*/2 * * * *")
	w.register(ids[1], "*/1 * * * *")
	sp, _ := w.state.jobs[ids[0]].decodeSpec()
	w.state.cache[messages.TimingOf(ids[0], sp).Key()].schedule = nil // whoever asks it anything panics
	w.advance(3 * time.Minute)
	if j := w.state.jobs[ids[0]]; j.status != job.Faulty {
		t.Errorf("the poisoned job is %s", j.status)
	}
	if n, last := w.state.Panics(); n != 1 || last == "" {
		t.Errorf("%d panics: %s", n, last)
	}
	if len(w.deliveries) != 3 {
		t.Errorf("its neighbour ran %d times", len(w.deliveries))
	}
	if a := w.ask(&belfryv1.Command{JobId: ids[0], Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}}); a.GetDeleted() == nil {
		t.Errorf("it cannot be deleted: %v", a)
	}
}

// TestPanicOverADueExecution: it marks its job, and the neighbour's that is due at
// the same instant runs.
func TestPanicOverADueExecution(t *testing.T) {
	w := newWorld(t)
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
	ids := w.inPartition(2)
	w.register(ids[0], "* * * * *", func(s *job.Spec) { s.Overlap = job.OverlapSkip })
	w.register(ids[1], "* * * * *")
	w.ask(&belfryv1.Command{JobId: ids[0], Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	w.advance(59*time.Second + 900*time.Millisecond) // both slots are armed
	w.unchecked = true
	w.state.jobs[ids[0]].flights()[0].lastError = "\xff" // whoever writes the row panics
	w.advance(200 * time.Millisecond)
	w.check(Tick{})
	if n, _ := w.state.Panics(); n != 1 || w.state.jobs[ids[0]].status != job.Faulty {
		t.Errorf("%d panics, and the job is %s", n, w.state.jobs[ids[0]].status)
	}
	if n := len(w.deliveries); n != 2 { // what was triggered, and the neighbour's
		t.Errorf("%d deliveries", n)
	}
}

// TestPanicOverWhatIsDurable: an execution, or what a job does next, that goes
// wrong when its change is durable marks its job, and the others of the batch go
// on.
func TestPanicOverWhatIsDurable(t *testing.T) {
	for name, poison := range map[string]func(*world, *jobRec){
		"an execution": func(_ *world, j *jobRec) { j.flights()[0].lastError = "\xff" }, // whoever writes the row panics
		"what follows": func(w *world, _ *jobRec) { w.state.queue.flying.changes[0].afterwards(func() { panic("test") }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
			ids := w.inPartition(2)
			w.register(ids[0], "0 0 1 1 *", func(s *job.Spec) { s.Overlap = job.OverlapReplace })
			w.register(ids[1], "0 0 1 1 *")
			trigger := func(id string) *belfryv1.Command {
				return &belfryv1.Command{Id: fmt.Sprint(id, w.nextRef), JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}}
			}
			w.ask(trigger(ids[0]))
			w.fate.commit = func() verdict { return silent }
			var batch persistence.Batch
			w.stalled = func(c Commit) { batch = c.Batch }
			w.step(Asked{Ref: 100, Commands: []*belfryv1.Command{trigger(ids[0]), trigger(ids[1])}})
			poison(w, w.state.jobs[ids[0]])
			w.fate.commit, w.unchecked = nil, true
			w.store.apply(batch)
			w.step(Applied{w.store.fence})
			w.check(Applied{})
			if n, last := w.state.Panics(); n != 1 || w.state.jobs[ids[0]].status != job.Faulty {
				t.Errorf("%d panics, and the job is %s: %s", n, w.state.jobs[ids[0]].status, last)
			}
			if n := len(w.deliveries); n == 0 || !strings.HasPrefix(w.deliveries[n-1].id, ids[1]) {
				t.Errorf("the neighbour's was not sent: %v", w.deliveries)
			}
		})
	}
}

// TestPanicOverAGrant: of a job of which all that waited is being granted, none
// is; its neighbour's is, and the partition goes on.
func TestPanicOverAGrant(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(2)
	for _, id := range ids {
		w.register(id, "0 0 1 1 *", func(s *job.Spec) { s.Target = job.Target{Queue: &job.QueueTarget{Name: "emails"}} })
	}
	trigger := func(id string) {
		w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	}
	trigger(ids[0])
	trigger(ids[0])
	claim := &belfryv1.Claim{Queue: "emails", Worker: "\xff", Max: 2, LeaseMs: 1000} // no row can have this name
	for _, a := range w.claim(claim).GetAnswers() {
		if a.GetRefusal() == nil {
			t.Errorf("it was granted: %v", a)
		}
	}
	if n, _ := w.state.Panics(); n != 1 || w.state.jobs[ids[0]].status != job.Faulty {
		t.Errorf("%d panics, and the job is %s", n, w.state.jobs[ids[0]].status)
	}
	trigger(ids[1])
	claim.Worker = "w"
	if got := w.claim(claim).GetAnswers(); len(got) != 1 || got[0].GetGrant().GetJobId() != ids[1] {
		t.Errorf("the neighbour's: %v", got)
	}
}

// TestRefusedRow: the store refuses the content of one row among many; that job
// is marked, and everything else of the batch is there.
func TestRefusedRow(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(40)
	bad := ids[17]
	w.refuse = func(b persistence.Batch) bool {
		for _, r := range b.Rows {
			if r.JobID == bad && r.Status == job.Active {
				return true
			}
		}
		return false
	}
	var cmds []*belfryv1.Command
	for _, id := range ids {
		cmds = append(cmds, &belfryv1.Command{Id: id, JobId: id, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: spec("* * * * *")}}})
	}
	w.step(Asked{Ref: 99, Commands: cmds[:1]}) // so that the rest is one batch
	w.step(Asked{Ref: 100, Commands: cmds[1:]})
	answers, _ := w.answers[100].(*belfryv1.Answers)
	if len(answers.GetAnswers()) != 39 {
		t.Fatalf("answers: %v", w.answers[100])
	}
	for _, a := range answers.GetAnswers() {
		if refused := a.GetRefusal() != nil; refused != (a.GetCommandId() == bad) {
			t.Errorf("%s: %v", a.GetCommandId(), a)
		}
	}
	if len(w.store.rows) != 40 { // the bad one is stored as faulty, without its content
		t.Errorf("%d rows", len(w.store.rows))
	}
	w.advance(time.Minute)
	if len(w.deliveries) != 39 {
		t.Errorf("%d deliveries", len(w.deliveries))
	}
}

// TestStateStaysSmall: a hundred failing executions of a job with the longest
// id, each with a long error, stay within the bound (checked after each step).
func TestStateStaysSmall(t *testing.T) {
	w := newWorld(t)
	id := ""
	for i := 0; id == "" || job.PartitionOf(id, 16) != w.cfg.Partition; i++ {
		id = string(rune('a'+i%26)) + string(rune('a'+i/26)) + longText(126)
	}
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: longText(500)}
	}
	w.register(id, "0 0 1 1 *", func(s *job.Spec) { s.Retry.InitialBackoff = time.Hour; s.Retry.MaxBackoff = time.Hour })
	for range 100 {
		if a := w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}}); a.GetExecution() == nil {
			t.Fatalf("trigger: %v", a)
		}
	}
	if a := w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}}); a.GetRefusal().GetCode() != belfryv1.Refusal_CODE_BUSY {
		t.Errorf("the 101st: %v", a)
	}
	if n := len(encode(w.state.jobs[id].state())); n < 4<<10 {
		t.Errorf("the state has %d bytes: the test does not reach the bound", n)
	}
}

func longText(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return string(b)
}
