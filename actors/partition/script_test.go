package partition

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestScripts runs testdata/*.txt: what an owner does, as prose. Each command is
// followed by what it prints; "go test -run Scripts -rewrite" writes it anew.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Base(path) == "seeds.txt" {
			return // no script: see explore
		}
		s := &script{w: newWorld(t)}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	w     *world
	shown int
	out   *Commit // while the store is slow: what it has not answered
	asked []Ref   // commands without an answer

	leases map[string]*belfryv1.Grant // of outside workers, as the script calls them
	hinted int                        // hints that were shown
}

// run carries out one command.
func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	w := s.w
	switch d.Cmd {
	case "at": // start the clock there
		at := mustTime(t, d.CmdArgs[0].Key)
		s.w, s.shown = newWorld(t), 0
		s.w.now = at
		s.w.crash()
		s.w.boot()
		return ""
	case "register":
		return s.show(w.ask(&belfryv1.Command{Id: arg(d, "key", ""), Keyed: d.HasArg("key"), JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{
			Spec: spec(strings.TrimSpace(d.Input), edits(t, d)), RunPast: d.HasArg("past"), Paused: pausedArg(d), Mode: modeArg(d),
		}}}))
	case "delete":
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}}))
	case "pause":
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Pause{Pause: &belfryv1.Pause{Reason: "asked"}}}))
	case "resume":
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Resume{Resume: &belfryv1.Resume{CatchUp: d.HasArg("catch_up")}}}))
	case "trigger":
		return s.show(w.ask(&belfryv1.Command{Id: arg(d, "key", ""), Keyed: d.HasArg("key"), JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}}))
	case "backfill":
		return s.backfill(d)
	case "cancel-backfill": // by its place in the job's list, from 1
		b := w.state.jobs[d.CmdArgs[0].Key].past.backfills[mustInt(t, d.CmdArgs[1].Key)-1]
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_CancelBackfill{CancelBackfill: &belfryv1.CancelBackfill{Id: b.GetId()}}}))
	case "backfills":
		return s.backfills(d.CmdArgs[0].Key)
	case "dead": // the dead letters of a job
		var b strings.Builder
		for _, x := range w.dead(d.CmdArgs[0].Key) {
			b.WriteString(mask(x) + "\n")
		}
		return b.String()
	case "replay": // the first of them, or what an argument names
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Replay{Replay: &belfryv1.ReplayDead{
			ExecutionId: s.deadLetter(d), NewKey: d.HasArg("new_key"), SameKey: d.HasArg("same_key"),
		}}})) + "\n" + s.deliveries()
	case "late": // success of an attempt of a dead letter
		id := s.deadLetter(d)
		w.finish(&belfryv1.Delivery{ExecutionId: id, JobId: d.CmdArgs[0].Key, Attempt: int32(mustInt(t, arg(d, "attempt", "1")))}, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}, w.state.life)
		w.step(Tick{})
		return fmt.Sprintf("%d results are not acknowledged\n", len(w.held)) + s.deliveries()
	case "purge":
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Purge{Purge: &belfryv1.Purge{ExecutionId: s.deadLetter(d)}}}))
	case "last": // how the target saw the last delivery
		x := w.deliveries[len(w.deliveries)-1]
		return fmt.Sprintf("key %s scheduled for %s", mask(x.key), stamp(x.slot.UnixMilli()))
	case "cancel": // the nth execution in flight
		return s.show(w.ask(&belfryv1.Command{JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Cancel{Cancel: &belfryv1.Cancel{ExecutionId: s.inFlight(t, d), Reason: arg(d, "reason", "")}}}))
	case "advance":
		w.advance(mustDuration(t, d.CmdArgs[0].Key))
		return s.deliveries()
	case "clock": // steps the wall clock
		w.now = w.now.Add(mustDuration(t, d.CmdArgs[0].Key))
		w.step(Tick{Judge: true})
		return s.deliveries()
	case "outage": // the process dies and another comes after a while
		w.crash()
		w.now = w.now.Add(mustDuration(t, d.CmdArgs[0].Key))
		w.boot()
		return s.deliveries()
	case "target":
		s.target(d.CmdArgs[0].Key)
		return ""
	case "answer": // of the calls that hang: success, 410 or 500
		return s.finishHanging(d)
	case "store":
		s.storeIs(d.CmdArgs[0].Key)
		return s.deliveries()
	case "answered": // by the slow store: whose rows the batch has, and the answers that waited for it
		return s.answered()
	case "history":
		return s.history(d.CmdArgs[0].Key)
	case "job":
		return s.job(d.CmdArgs[0].Key)
	}
	if out, known := s.outside(t, d); known {
		return out
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func edits(t *testing.T, d *datadriven.TestData) func(*job.Spec) {
	return func(s *job.Spec) {
		for _, a := range d.CmdArgs[1:] {
			if len(a.Vals) == 0 {
				continue
			}
			v := a.Vals[0]
			switch a.Key {
			case "policy":
				s.CatchUp.Policy = job.CatchUpPolicy(v)
			case "queue":
				s.Target = job.Target{Queue: &job.QueueTarget{Name: v, Payload: []byte("hello")}}
			case "timeout":
				s.Timeout = mustDuration(t, v)
			case "rate":
				s.RateLimit.PerSecond = float64(mustInt(t, v))
			case "elapsed":
				s.Retry.MaxElapsed = mustDuration(t, v)
			case "max":
				s.CatchUp.Max = mustInt(t, v)
			case "window":
				s.CatchUp.Window = mustDuration(t, v)
			case "attempts":
				s.Retry.MaxAttempts = mustInt(t, v)
			case "backoff":
				s.Retry.InitialBackoff = mustDuration(t, v)
				s.Retry.Jitter = -1
			case "outstanding":
				s.MaxOutstanding = mustInt(t, v)
			case "overlap":
				s.Overlap = job.Overlap(v)
			case "room":
				s.OverlapQueue = mustInt(t, v)
			case "zone":
				s.Schedule.Zone = v
			case "description":
				s.Description = v
			case "runs":
				s.MaxRuns = int64(mustInt(t, v))
			case "jitter":
				s.Schedule.Jitter = mustDuration(t, v)
			case "starts":
				s.Schedule.StartsAt = mustTime(t, v)
			case "seconds":
				s.Schedule.Seconds = true
			case "fold":
				s.Schedule.Fold = job.FoldRule(v)
			}
		}
	}
}

func pausedArg(d *datadriven.TestData) *belfryv1.Paused {
	if !d.HasArg("paused") {
		return nil
	}
	return &belfryv1.Paused{Paused: arg(d, "paused", "true") == "true"}
}

func modeArg(d *datadriven.TestData) belfryv1.Register_Mode {
	if d.HasArg("create") {
		return belfryv1.Register_MODE_CREATE
	}
	return belfryv1.Register_MODE_UNSPECIFIED
}

// target says how the target answers from here on.
func (s *script) target(how string) {
	s.w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
		switch how {
		case "hangs":
			return nil
		case "fails":
			return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500 Internal Server Error"}
		case "gone":
			return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 410, Error: "410 Gone", Gone: true}
		case "times-out":
			return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_TIMEOUT, Error: "timeout"}
		}
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
	}
}

func (s *script) finishHanging(d *datadriven.TestData) string {
	for _, j := range s.w.running {
		r := &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
		switch {
		case d.HasArg("gone"):
			r = &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 410, Gone: true}
		case d.HasArg("fails"):
			r = &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500 Internal Server Error"}
		}
		s.w.finish(j.d, r, s.w.state.life)
	}
	s.w.step(Tick{})
	return s.deliveries()
}

// storeIs says how the store answers from here on.
func (s *script) storeIs(how string) {
	s.w.stalled = func(c Commit) { s.out = &c }
	verdicts := map[string]verdict{"fine": fine, "slow": silent, "unavailable": unavailable, "applies-in-doubt": doubtDone, "loses-in-doubt": doubtDead}
	v, ok := verdicts[how]
	if !ok {
		s.w.t.Fatalf("unknown fate %q of the store", how)
	}
	n := 0
	s.w.fate.commit = func() verdict {
		n++
		if n > 1 && (v == doubtDone || v == doubtDead) {
			return fine // the one batch, and the barrier is answered
		}
		return v
	}
}

// answered lets the slow store answer.
func (s *script) answered() string {
	c := s.out
	if c == nil {
		return "no batch is out"
	}
	s.out = nil
	s.w.store.apply(c.Batch)
	s.w.step(Applied{s.w.store.fence})
	var b strings.Builder
	b.WriteString("batch:")
	for _, r := range c.Batch.Rows {
		fmt.Fprintf(&b, " %s", r.JobID)
	}
	b.WriteByte('\n')
	s.asked = slices.DeleteFunc(s.asked, func(ref Ref) bool {
		a, ok := s.w.answers[ref].(*belfryv1.Answer)
		if ok {
			fmt.Fprintf(&b, "%s: %s\n", a.GetCommandId(), s.show(a))
		}
		return ok
	})
	return b.String() + s.deliveries()
}

func (s *script) show(a *belfryv1.Answer) string {
	switch o := a.GetOutcome().(type) {
	case *belfryv1.Answer_Job:
		verb := "ok"
		if a.GetCreated() {
			verb = "created"
		}
		return fmt.Sprintf("%s %s next %s", verb, o.Job.GetStatus(), stamp(o.Job.GetNextRun()))
	case *belfryv1.Answer_Execution:
		return strings.TrimSpace("execution " + mask(o.Execution.GetExecutionId()) + " " + o.Execution.GetStatus())
	case *belfryv1.Answer_Backfill:
		return showBackfill(o.Backfill)
	case *belfryv1.Answer_Deleted:
		return "deleted"
	case *belfryv1.Answer_LeaseOver:
		return "over"
	case *belfryv1.Answer_LeaseHeld:
		return "held until " + stamp(o.LeaseHeld.GetExpiresAt())
	case *belfryv1.Answer_Refusal:
		return maskAll(fmt.Sprintf("refused %s: %s", strings.TrimPrefix(o.Refusal.GetCode().String(), "CODE_"), o.Refusal.GetMessage()))
	}
	s.asked = append(s.asked, s.w.nextRef)
	return "no answer yet"
}

// mask shortens the hash of an id that has one.
func mask(id string) string {
	ref, ok := job.ParseExecutionID(id)
	if ok && ref.Hash != "" {
		return fmt.Sprintf("%s~%d~%c…~%s", ref.JobID, ref.Generation, ref.Kind, stamp(ref.At.UnixMilli()))
	}
	return id
}

// backfill asks for a range: from, to, at most so many at once.
func (s *script) backfill(d *datadriven.TestData) string {
	r := &belfryv1.AskBackfill{NewKey: d.HasArg("new_key"), DryRun: d.HasArg("dry")}
	r.From = mustTime(s.w.t.(*testing.T), arg(d, "from", "")).UnixMilli()
	if d.HasArg("to") {
		r.To = mustTime(s.w.t.(*testing.T), arg(d, "to", "")).UnixMilli()
	}
	r.Concurrency = int32(mustInt(s.w.t.(*testing.T), arg(d, "concurrency", "1")))
	key := arg(d, "key", "")
	a := s.w.ask(&belfryv1.Command{Id: key, Keyed: key != "", JobId: d.CmdArgs[0].Key, Action: &belfryv1.Command_Backfill{Backfill: r}})
	return s.show(a) + "\n" + s.deliveries()
}

func (s *script) backfills(id string) string {
	var b strings.Builder
	for _, x := range s.w.state.jobs[id].past.backfills {
		b.WriteString(showBackfill(x) + "\n")
	}
	return b.String()
}

func showBackfill(b *belfryv1.Backfill) string {
	out := fmt.Sprintf("backfill %s … %s: %d slots, next %s, %d succeeded, %d failed, %d cancelled", stamp(b.GetFrom()), stamp(b.GetTo()), b.GetTotal(), stamp(b.GetNext()), b.GetSucceeded(), b.GetFailed(), b.GetCancelled())
	if b.GetEndedAt() != 0 {
		out += ", ended " + stamp(b.GetEndedAt())
	}
	if b.GetReason() != "" {
		out += ": " + b.GetReason()
	}
	return out
}

// maskAll masks the ids in a text.
func maskAll(text string) string {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \":\n", r) }) {
		text = strings.ReplaceAll(text, word, mask(word))
	}
	return text
}

func (s *script) deadLetter(d *datadriven.TestData) string {
	if named := arg(d, "id", ""); named != "" {
		return named
	}
	return append(s.w.dead(d.CmdArgs[0].Key), "none")[0]
}

// inFlight is the id of the first execution in flight of a job, or of the one
// that an argument counts to.
func (s *script) inFlight(t *testing.T, d *datadriven.TestData) string {
	flights := s.w.state.jobs[d.CmdArgs[0].Key].flights()
	n := mustInt(t, arg(d, "n", "1"))
	if n > len(flights) {
		return "none"
	}
	return flights[n-1].id
}

func stamp(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.999")
}

// deliveries prints what the target received since it was asked last.
func (s *script) deliveries() string {
	var b strings.Builder
	for _, d := range s.w.deliveries[s.shown:] {
		fmt.Fprintf(&b, "%s attempt %d", mask(d.id), d.attempt)
		if d.key != d.id {
			fmt.Fprintf(&b, " under key %s", d.key)
		}
		if late := d.at.Sub(d.slot); late != 0 {
			fmt.Fprintf(&b, " (%s late)", late)
		}
		b.WriteByte('\n')
	}
	s.shown = len(s.w.deliveries)
	return b.String()
}

func (s *script) history(id string) string {
	var b strings.Builder
	for _, l := range s.w.lines(id) {
		if l.count > 1 || l.id == "open" {
			fmt.Fprintf(&b, "%s … %s ×%d %s", stamp(l.first), stamp(l.last), l.count, l.status)
		} else {
			fmt.Fprintf(&b, "%s %s", stamp(l.first), l.status)
		}
		if l.reason != "" {
			fmt.Fprintf(&b, ": %s", maskAll(l.reason))
		}
		if l.id == "open" {
			b.WriteString(" (open)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (s *script) job(id string) string {
	j := s.w.state.jobs[id]
	if j == nil {
		return "none"
	}
	out := fmt.Sprintf("%s next %s", j.status, stamp(j.next))
	if j.past != nil && j.past.reason != "" {
		out += ": " + j.past.reason
	}
	return out
}

func arg(d *datadriven.TestData, key, def string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return def
}

func mustTime(t *testing.T, s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func mustDuration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustInt(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
