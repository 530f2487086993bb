package partition

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// newLanesWorld is a world with these local workers, which begin only what a
// test says, and a job for each host, which never comes due by itself.
func newLanesWorld(t *testing.T, hosts map[string]string, edit func(*Config), workers ...WorkerID) *world {
	w := newWorld(t)
	if edit != nil {
		edit(&w.cfg)
		w.crash()
		w.boot()
	}
	w.sends = &[]Send{}
	for id, host := range hosts {
		w.register(id, "0 0 1 1 *", func(s *job.Spec) { s.Target.HTTP.URL = "https://" + host + "/hook" })
	}
	w.setWorkers(workers...)
	return w
}

func (w *world) setWorkers(ids ...WorkerID) {
	var list []Worker
	for _, id := range ids {
		list = append(list, Worker{ID: id})
	}
	w.step(Workers{List: list})
}

// run triggers a job n times.
func (w *world) run(id string, n int) {
	for range n {
		w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
		w.advance(time.Millisecond)
	}
}

// took are the jobs of what was sent since it was asked last, in order.
func (w *world) took() string {
	var ids []string
	for _, s := range *w.sends {
		for _, x := range s.Dispatch.GetDeliveries() {
			ids = append(ids, x.GetJobId())
		}
	}
	*w.sends = nil
	return strings.Join(ids, " ")
}

// refuseAll gives everything back that was sent, for a reason.
func (w *world) refuseAll(why Busied) {
	for _, s := range *w.sends {
		e := why
		e.From, e.Number, e.Deliveries = s.To, s.Dispatch.GetNumber(), refsOf(s.Dispatch)
		w.step(e)
	}
	*w.sends = nil
}

func (w *world) waiting(id string) string {
	w.nextRef++
	w.step(Described{w.nextRef, id})
	return w.answers[w.nextRef].(*belfryv1.Description).GetWaiting()
}

// jobs of the test's partition, for hosts.
func laneJobs(t *testing.T, n int) []string { return idsOf(newWorld(t), n) }

func TestHeldUpHostHoldsUpNoOther(t *testing.T) {
	ids := laneJobs(t, 2)
	w := newLanesWorld(t, map[string]string{ids[0]: "hangs", ids[1]: "fine"}, nil, "w1")
	w.run(ids[0], 1)
	w.refuseAll(Busied{Host: "hangs", Reason: belfryv1.Busy_REASON_CONCURRENCY})
	w.run(ids[0], 20)
	if got := w.took(); got != "" {
		t.Errorf("sent to a host that takes nothing: %s", got)
	}
	if got := w.waiting(ids[0]); got != "waiting: host limit (hangs)" {
		t.Error(got)
	}
	w.run(ids[1], 2)
	if got, want := w.took(), ids[1]+" "+ids[1]; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	w.step(Offered{From: "w1", ID: 7, Slots: 2, Host: "hangs"})
	if s := *w.sends; len(s) != 1 || s[0].Dispatch.GetOffer() != 7 || len(s[0].Dispatch.GetDeliveries()) != 2 {
		t.Fatalf("answered the offer with %v", s)
	}
	w.took()
	w.step(Offered{From: "w1", ID: 8, Slots: 100, Host: "hangs"}) // more than wait
	if n := len(inDispatches(*w.sends)); n != 19 {
		t.Errorf("%d of those that wait", n)
	}
	w.took()
	w.run(ids[0], 1)
	if got := w.took(); got != ids[0] {
		t.Errorf("the offer was not used up, and then was sent %q", got)
	}
}

// TestOffersForNobody are answered, so that nothing is kept for us.
func TestOffersForNobody(t *testing.T) {
	ids := laneJobs(t, 1)
	w := newLanesWorld(t, map[string]string{ids[0]: "h"}, nil, "w1")
	w.step(Offered{From: "w1", ID: 3, Slots: 5, Host: "unknown"})
	w.step(Offered{From: "gone", ID: 4, Slots: 5, Host: "h"})
	if s := *w.sends; len(s) != 2 || s[0].Dispatch.GetOffer() != 3 || s[1].Dispatch.GetOffer() != 4 {
		t.Errorf("answers %v", s)
	}
	if len(w.state.lanes.of) != 0 {
		t.Errorf("lanes %v", w.state.lanes.of)
	}
}

// TestLostOffer: a worker that says nothing is tried unasked, with few.
func TestLostOffer(t *testing.T) {
	ids := laneJobs(t, 1)
	w := newLanesWorld(t, map[string]string{ids[0]: "h"}, nil, "w1")
	w.run(ids[0], 1)
	w.refuseAll(Busied{Host: "h", Reason: belfryv1.Busy_REASON_CIRCUIT, RetryIn: 10_000})
	w.run(ids[0], 20)
	w.advance(11 * time.Second)
	if got := w.took(); got != "" {
		t.Errorf("sent within the worker's time: %s", got)
	}
	w.advance(2 * time.Second)
	for _, want := range []int{1, 2, 4, 8} {
		if n := len(inDispatches(*w.sends)); n != want {
			t.Fatalf("tried with %d, want %d", n, want)
		}
		w.took()
		w.advance(time.Duration(offerWait) * time.Millisecond)
	}
}

// TestJobsOfAHostInTurn: a job with many waiting does not keep others back.
func TestJobsOfAHostInTurn(t *testing.T) {
	ids := laneJobs(t, 3)
	a, b, c := ids[0], ids[1], ids[2]
	w := newLanesWorld(t, map[string]string{a: "h", b: "h", c: "h"}, nil, "w1")
	w.run(a, 1)
	w.refuseAll(Busied{Host: "h", Reason: belfryv1.Busy_REASON_CONCURRENCY})
	w.run(a, 30)
	w.run(b, 3)
	w.run(c, 1)
	var got []string
	for id := range int64(3) {
		w.step(Offered{From: "w1", ID: id + 1, Slots: 3, Host: "h"})
		got = append(got, w.took())
	}
	want := []string{a + " " + b + " " + c, a + " " + b + " " + a, b + " " + a + " " + a}
	if !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
}

// TestHostsInTurn: of few slots each host gets some.
func TestHostsInTurn(t *testing.T) {
	ids := laneJobs(t, 3)
	w := newLanesWorld(t, map[string]string{ids[0]: "h1", ids[1]: "h2", ids[2]: "h3"}, nil, "w1")
	w.run(ids[0], 1)
	w.refuseAll(Busied{})
	w.run(ids[0], 30)
	w.run(ids[1], 2)
	w.run(ids[2], 1)
	got := map[string]int{}
	for id := range int64(3) {
		w.step(Offered{From: "w1", ID: id + 1, Slots: 2})
		for _, s := range strings.Fields(w.took()) {
			got[s]++
		}
	}
	if got[ids[1]] != 2 || got[ids[2]] != 1 {
		t.Errorf("took %v", got)
	}
}

// TestSharedLimitHasOneHome: one worker makes all calls to a host with a limit,
// wherever the owner is, and another when that is lost.
func TestSharedLimitHasOneHome(t *testing.T) {
	ids := laneJobs(t, 6)
	hosts := map[string]string{}
	for i, id := range ids {
		hosts[id] = fmt.Sprint("h", i)
	}
	w := newLanesWorld(t, hosts, func(c *Config) {
		c.Hosts = job.HostLimits{Default: job.HostLimit{Concurrency: 5}, Hosts: map[string]job.HostLimit{"h0": {}}}
	}, "w1", "w2", "w3")
	homes := func() map[string]WorkerID {
		at := map[string]WorkerID{}
		for _, id := range ids {
			w.run(id, 3)
			for _, s := range *w.sends {
				if at[id] != "" && at[id] != s.To {
					t.Fatalf("host of %s is called by %s and %s", id, at[id], s.To)
				}
				at[id] = s.To
			}
			w.took()
		}
		return at
	}
	first := homes()
	if first[ids[0]] != "w1" {
		t.Errorf("without a limit the nearest worker calls, and it was %s", first[ids[0]])
	}
	used := map[WorkerID]bool{}
	for _, id := range ids[1:] {
		used[first[id]] = true
	}
	if len(used) < 2 {
		t.Errorf("all hosts have one home: %v", first)
	}
	lost := first[ids[1]]
	left := slices.DeleteFunc([]WorkerID{"w1", "w2", "w3"}, func(id WorkerID) bool { return id == lost })
	w.setWorkers(left...)
	w.took()
	for id, at := range homes() {
		if at == lost || first[id] != lost && at != first[id] && id != ids[0] {
			t.Errorf("%s moved from %s to %s when %s was lost", id, first[id], at, lost)
		}
	}
}

// TestWaitingExpires: what is held up until it is too old is a dead letter with
// no attempt, and says what it waited for.
func TestWaitingExpires(t *testing.T) {
	ids := laneJobs(t, 1)
	w := newLanesWorld(t, map[string]string{ids[0]: "h"}, nil, "w1")
	w.register(ids[0], "0 0 1 1 *", func(s *job.Spec) {
		s.Target.HTTP.URL, s.Retry.MaxElapsed = "https://h/hook", time.Hour
	})
	w.run(ids[0], 1)
	since := w.now.UnixMilli()
	w.refuseAll(Busied{Host: "h", Reason: belfryv1.Busy_REASON_CIRCUIT, Since: since, RetryIn: 2 * time.Hour.Milliseconds()})
	want := "waiting: circuit open since 2026-01-01T00:00:00Z (h)"
	if got := w.waiting(ids[0]); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.advance(59 * time.Minute)
	if len(w.state.running) != 1 {
		t.Fatal("gone before its time")
	}
	w.advance(2 * time.Minute)
	dead := w.deadLetters()
	if len(dead) != 1 || dead[0].GetReason() != "expired" || dead[0].GetAttempts() != 0 {
		t.Fatalf("dead letters %v", dead)
	}
	last := w.store.history[len(w.store.history)-1]
	r := new(belfryv1.Record)
	if err := proto.Unmarshal(last.Record, r); err != nil {
		t.Fatal(err)
	}
	if r.GetStatus() != "failed" || r.GetReason() != "expired" || r.GetError() != want || r.GetAttempts() != 0 || r.GetSentAt() != 0 {
		t.Errorf("summary %v", r)
	}
}

func (w *world) deadLetters() (all []*belfryv1.DeadLetter) {
	for k, row := range w.store.rows {
		if strings.HasPrefix(k[1], "dead/") {
			d := new(belfryv1.DeadLetter)
			if err := proto.Unmarshal(row.State, d); err != nil {
				w.t.Fatal(err)
			}
			all = append(all, d)
		}
	}
	return all
}

// TestArmedIsSentHoweverLate: an outage longer than max_elapsed is no reason to
// give up what was armed before.
func TestArmedIsSentHoweverLate(t *testing.T) {
	ids := laneJobs(t, 1)
	w := newLanesWorld(t, nil, nil, "w1")
	w.register(ids[0], "* * * * *", func(s *job.Spec) { s.Retry.MaxElapsed = time.Minute })
	w.advance(time.Minute - 100*time.Millisecond)
	if len(w.state.running) != 1 {
		t.Fatal("nothing is armed")
	}
	w.crash()
	w.now = w.now.Add(time.Hour)
	w.boot()
	w.setWorkers()
	w.advance(30 * time.Second)
	w.setWorkers("w1")
	w.step(Holds{From: "w1"})
	if got := strings.Fields(w.took()); len(got) == 0 || len(w.deadLetters()) > 0 {
		t.Errorf("sent %v, dead letters %v", got, w.deadLetters())
	}
}

// TestLane: whatever is added, removed and taken, jobs come in turn, and what is
// of one job in due order.
func TestLane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(DefaultConfig(), persistence.Fence{}, origin)
		wk := &worker{Worker: Worker{ID: "w"}}
		jobs := []*jobRec{{id: "a"}, {id: "b"}, {id: "c"}}
		spec := spec("* * * * *")
		var queuedUp []*flight
		made := 0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
			case what == 0 && len(queuedUp) > 0:
				k := rapid.IntRange(0, len(queuedUp)-1).Draw(t, "which")
				s.unqueue(queuedUp[k])
				queuedUp = slices.Delete(queuedUp, k, k+1)
			case what == 1:
				n := rapid.IntRange(1, 6).Draw(t, "n")
				took := s.takeShares(wk, s.shares(wk), n)
				if len(took) != min(n, len(queuedUp)) {
					t.Fatalf("took %d of %d", len(took), len(queuedUp))
				}
				last := map[*jobRec]*flight{}
				for _, f := range took {
					queuedUp = slices.DeleteFunc(queuedUp, func(o *flight) bool { return o == f })
					if before := last[f.job]; before != nil && before.turn >= f.turn {
						t.Fatalf("two of job %s in turn %d", f.job.id, f.turn)
					}
					last[f.job] = f
				}
				for _, left := range queuedUp {
					if f := last[left.job]; f == nil && len(took) > 2 {
						for j, f := range last { // no job had two before this one had one
							if f.turn > left.turn {
								t.Fatalf("job %s got turn %d, and %s waits in turn %d", j.id, f.turn, left.job.id, left.turn)
							}
						}
					}
				}
				if len(took) > 0 && rapid.Bool().Draw(t, "given back") {
					for _, f := range took {
						s.enqueue(f)
						queuedUp = append(queuedUp, f)
					}
				}
			default:
				made++
				f := &flight{job: rapid.SampledFrom(jobs).Draw(t, "job"), id: fmt.Sprintf("%03d", made), due: int64(made), spec: spec, bytes: 1}
				f.timer.Value = timed{flight: f}
				s.enqueue(f)
				queuedUp = append(queuedUp, f)
			}
			s.order()
			if err := s.checkLanes(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestDeliveryLargerThanAMessage goes alone.
func TestDeliveryLargerThanAMessage(t *testing.T) {
	s := New(DefaultConfig(), persistence.Fence{}, origin)
	w := &worker{}
	for _, f := range []*flight{{bytes: 2 * sendBytes, id: "a"}, {bytes: 1, id: "b"}} {
		f.job, f.spec = &jobRec{id: f.id}, spec("* * * * *")
		s.enqueue(f)
	}
	for _, want := range []string{"a", "b"} {
		if got := s.takeShares(w, s.shares(w), sendChunk); len(got) != 1 || got[0].id != want {
			t.Fatalf("%d flights", len(got))
		}
	}
}

// TestMemoryOfWhatWaits: a million executions that wait for a host have to fit
// into one process, so each costs few bytes; its payload is one for all of a job.
func TestMemoryOfWhatWaits(t *testing.T) {
	const jobs, each, most = 50, 100, 900
	w := newWorld(t)
	w.sends = &[]Send{}
	w.step(Workers{})
	w.unchecked = true // for speed
	ids := idsOf(w, jobs)
	for _, id := range ids {
		w.register(id, "0 0 1 1 *", func(s *job.Spec) {
			s.MaxOutstanding, s.Target.HTTP.Method, s.Target.HTTP.Body = each, "POST", make([]byte, 4096)
		})
	}
	before := heapInUse()
	for _, id := range ids {
		w.run(id, each)
	}
	w.store, w.answers, w.events, w.deliveries = model{fence: w.store.fence}, nil, nil, nil
	bytes := (heapInUse() - before) / (jobs * each)
	if n := w.state.lanes.n; n != jobs*each {
		t.Fatalf("%d wait", n)
	}
	t.Logf("%d bytes each", bytes)
	if bytes > most {
		t.Errorf("each execution that waits takes %d bytes, and %d are planned", bytes, most)
	}
	runtime.KeepAlive(w.state)
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
