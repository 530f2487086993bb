package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestLinkScripts runs linksdata/*.txt: jobs that follow one another, each in a
// partition of its own, as prose.
func TestLinkScripts(t *testing.T) {
	datadriven.Walk(t, "linksdata", func(t *testing.T, path string) {
		s := &linkScript{network: newNetwork(t, 1, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"), fails: map[string]int{}}
		s.say("%s", path)
		for _, w := range s.worlds {
			w.fate.outcome = s.outcome
		}
		datadriven.RunTest(t, path, s.run)
	})
}

type linkScript struct {
	*network
	called []string // since the last advance began
	all    []string
	fails  map[string]int // how many of a job's next attempts fail
	hangs  string
}

func (s *linkScript) outcome(x *belfryv1.Delivery) *belfryv1.Result {
	id := x.GetJobId()
	s.called, s.all = append(s.called, id), append(s.all, id)
	switch {
	case s.hangs == id:
		return nil
	case s.fails[id] > 0:
		s.fails[id]--
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500"}
	}
	return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
}

func (s *linkScript) run(t *testing.T, d *datadriven.TestData) string {
	id := ""
	if len(d.CmdArgs) > 0 {
		id = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "register":
		return s.register(d, id)
	case "jobs": // b(a) c(a) …: all at once
		var out []string
		for _, part := range strings.Fields(d.Input) {
			id, rest, follows := strings.Cut(strings.TrimSuffix(part, ")"), "(")
			sp := spec("@every 1h")
			if follows {
				sp = following(strings.Split(rest, ","))
			}
			out = append(out, id+": "+shortAnswer(s.network.register(id, sp)))
		}
		return strings.Join(out, "\n")
	case "race": // two registrations at the same moment
		x, y := d.CmdArgs[0], d.CmdArgs[1]
		var answers [2]*belfryv1.Answer
		for i, a := range []datadriven.CmdArg{x, y} {
			s.startThen(&belfryv1.Command{JobId: a.Key, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: following(a.Vals)}}}, func(got *belfryv1.Answer) { answers[i] = got })
		}
		s.network.run(10 * time.Second)
		won := 0
		for _, a := range answers {
			if a.GetJob() != nil {
				won++
			}
		}
		return fmt.Sprintf("%d of 2 won: %t", won, won <= 1)
	case "delete":
		return shortAnswer(s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}}, time.Minute))
	case "trigger":
		return shortAnswer(s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}}, time.Minute))
	case "pause":
		return shortAnswer(s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Pause{Pause: &belfryv1.Pause{}}}, time.Minute))
	case "resume":
		return shortAnswer(s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Resume{Resume: &belfryv1.Resume{}}}, time.Minute))
	case "advance":
		s.called = nil
		s.network.run(mustDuration(t, id))
		return strings.Join(s.called, " ")
	case "fails": // the next attempts of a job
		s.fails[id] = mustInt(t, arg(d, "times", "1"))
		return ""
	case "late": // the success of a dead letter
		w := s.of(id)
		w.finish(&belfryv1.Delivery{ExecutionId: w.dead(id)[0], JobId: id, Attempt: 1}, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}, w.state.life)
		w.step(Tick{})
		return fmt.Sprintf("%d dead letters", len(w.dead(id)))
	case "replay": // the first dead letter
		w := s.of(id)
		c := &belfryv1.Command{JobId: id, Action: &belfryv1.Command_Replay{Replay: &belfryv1.ReplayDead{ExecutionId: append(w.dead(id), "none")[0]}}}
		w.readDead(c)
		return shortAnswer(s.ask(c, time.Minute))
	case "calls": // of the targets of jobs, so far
		n := map[string]int{}
		for _, x := range s.all {
			n[x]++
		}
		return strings.Trim(strings.TrimPrefix(fmt.Sprint(n), "map"), "[]")
	case "hangs":
		s.hangs = id
		return ""
	case "cut": // nothing passes between owners
		for p, w := range s.worlds {
			w.tell = func(c *belfryv1.Command) { s.after(errandTimeout, func() { s.step(p, Told{Command: c.GetId()}) }) }
		}
		return ""
	case "mend":
		for p, w := range s.worlds {
			w.tell = func(c *belfryv1.Command) { s.send(p, c) }
		}
		return ""
	case "kill": // the owner of a job dies, and another comes after a while
		p := job.PartitionOf(id, 16)
		if id == "system" {
			p = job.SystemPartition
		}
		s.worlds[p].crash()
		s.network.run(mustDuration(t, arg(d, "for", "3s")))
		s.boot(p)
		return ""
	case "history":
		out := (&script{w: s.of(id)}).history(id)
		if d.HasArg("count") {
			counts := map[string]int{}
			for _, l := range s.of(id).lines(id) {
				counts[strings.TrimSuffix(l.status+": "+l.reason, ": ")] += int(l.count)
			}
			var parts []string
			for k, n := range counts {
				parts = append(parts, fmt.Sprintf("%d %s", n, k))
			}
			slices.Sort(parts)
			out = strings.Join(parts, ", ")
		}
		return out
	case "job":
		j := s.of(id).state.jobs[id]
		return fmt.Sprintf("%s %s", j.status, j.missing())
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func (s *linkScript) register(d *datadriven.TestData, id string) string {
	edit := func(j *job.Spec) {
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "attempts":
				j.Retry.MaxAttempts, j.Retry.Jitter = mustInt(s.t.(*testing.T), a.Vals[0]), -1
			case "outstanding":
				j.MaxOutstanding = mustInt(s.t.(*testing.T), a.Vals[0])
			case "overlap":
				j.Overlap = job.Overlap(a.Vals[0])
			case "policy":
				j.CatchUp.Policy, j.CatchUp.Window = job.CatchUpPolicy(a.Vals[0]), 7*24*time.Hour
			case "after":
				j.DependsOn = a.Vals
			}
		}
	}
	return shortAnswer(s.network.register(id, spec(strings.TrimSpace(d.Input), edit)))
}

func shortAnswer(a *belfryv1.Answer) string {
	switch o := a.GetOutcome().(type) {
	case *belfryv1.Answer_Job:
		return o.Job.GetStatus()
	case *belfryv1.Answer_Deleted:
		return "deleted"
	case *belfryv1.Answer_Execution:
		return "triggered"
	case *belfryv1.Answer_Refusal:
		return "refused: " + o.Refusal.GetMessage()
	}
	return "no answer"
}
