package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestFleetScripts runs fleetdata/*.txt: what owners and workers do with each
// other, as prose. Every message takes a millisecond.
func TestFleetScripts(t *testing.T) {
	datadriven.Walk(t, "fleetdata", func(t *testing.T, path string) {
		s := &fleetScript{fleet: newFleet(t, 1)}
		s.exact = true
		datadriven.RunTest(t, path, s.run)
	})
}

type fleetScript struct {
	*fleet
	shown int
}

func (s *fleetScript) named(t *testing.T, name string) *fleetNode {
	for _, n := range s.live() {
		if n.name == name {
			return n
		}
	}
	t.Fatalf("there is no node %q", name)
	return nil
}

func (s *fleetScript) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	arg0 := ""
	if len(d.CmdArgs) > 0 {
		arg0 = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "node": // a process with a worker
		s.start(arg0, mustInt(t, arg(d, "slots", "10")))
	case "acquire":
		s.named(t, arg0).acquire(d.HasArg("ended"))
	case "register":
		ref := s.ask(s.owner(), &belfryv1.Command{JobId: arg0, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{
			Spec: spec(strings.TrimSpace(d.Input), edits(t, d)),
		}}})
		s.fleet.run(2 * time.Millisecond)
		if !s.answers[ref].GetCreated() {
			t.Fatalf("register %s: %v", arg0, s.answers[ref])
		}
	case "trigger":
		s.ask(s.owner(), &belfryv1.Command{JobId: arg0, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	case "answered": // how many commands are
		return fmt.Sprint(len(s.answers), " of ", s.lastRef)
	case "run":
		s.fleet.run(mustDuration(t, arg0))
	case "target": // ok, fails, or takes=<time>
		s.target = "takes " + arg(d, "takes", "1ms")
		if d.HasArg("fails") {
			s.target = "fails"
		}
	case "kill":
		s.named(t, arg0).up = false
	case "pause":
		s.named(t, arg0).paused = true
	case "resume":
		n := s.named(t, arg0)
		n.paused = false
		missed := n.missed
		n.missed = nil
		for _, do := range missed {
			n.now(do)
		}
	case "cut": // from the other nodes
		s.named(t, arg0).cut = true
	case "mute": // it seems to be there, and every message is lost
		s.named(t, arg0).mute = true
	case "join":
		s.named(t, arg0).cut, s.named(t, arg0).mute = false, false
	case "drain":
		s.named(t, arg0).worker.draining = true
	case "doubt": // the answers to so many requests to the store get lost
		s.doubt = mustInt(t, arg0)
	case "yield":
		n := s.named(t, arg0)
		n.next, n.given = s.named(t, arg(d, "to", "")), true
		s.say("%s is to yield", n.name)
		n.step(Yield{})
	case "history":
		return s.history()
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	return s.news()
}

// news is what has happened since it was asked last.
func (s *fleetScript) news() string {
	out := strings.Join(s.trace[s.shown:], "\n")
	s.shown = len(s.trace)
	return shorten(out)
}

// history are all lines, and what is still in flight.
func (s *fleetScript) history() string {
	var b strings.Builder
	for _, h := range s.store.history {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			s.t.Fatal(err)
		}
		what := fmt.Sprintf("attempt %d", h.Attempt)
		if h.Attempt == 0 {
			what = fmt.Sprintf("%d attempts", r.GetAttempts())
		}
		if g := r.GetRange(); g != nil {
			what = fmt.Sprintf("and %d before it", g.GetCount()-1)
		}
		fmt.Fprintf(&b, "%s %s epoch %d %s %s\n", h.ExecutionID, what, h.Epoch, r.GetStatus(), strings.TrimSpace(r.GetReason()+" "+r.GetError()))
	}
	if o := s.owner(); o != nil {
		var lines []string
		for _, f := range o.state.running {
			lines = append(lines, fmt.Sprintf("%s attempt %d in flight", f.id, f.attempt))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, "\n"))
	}
	return shorten(b.String())
}

// shorten leaves out what makes ids unique that have a hash.
func shorten(text string) string {
	return maskAll(text)
}
