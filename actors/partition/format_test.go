package partition

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// formats are those that the rows of jobs in the store are written in.
func (w *world) formats() map[int]int {
	w.t.Helper()
	out := map[int]int{}
	for key, r := range w.store.rows {
		st := new(belfryv1.JobState)
		if err := proto.Unmarshal(r.State, st); err != nil {
			w.t.Fatal(err)
		}
		if key[1] == "" {
			out[messages.FormatOf(st)]++
		}
	}
	return out
}

// TestRowsOfANewerFormat: an owner that does not know it reads nothing of the
// partition and writes nothing to it.
func TestRowsOfANewerFormat(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(2)
	w.register(ids[0], "* * * * *")
	w.crash()
	w.cfg.Format = messages.Format + 1 // as the owner of a newer build has it
	w.boot()
	w.register(ids[1], "* * * * *")
	w.advance(2 * time.Minute)
	if got := w.formats(); got[messages.Format+1] != 2 || len(got) != 1 {
		t.Fatalf("rows by format: %v", got)
	}
	w.crash()
	s := New(w.cfg, w.store.fence, w.now)
	for key, r := range w.store.rows {
		if key[1] != "" {
			continue
		}
		var newer *messages.NewerFormat
		if err := s.LoadRow(r); !errors.As(err, &newer) || newer.Format != messages.Format+1 {
			t.Errorf("job %s: got error %v, want NewerFormat", r.JobID, err)
		}
	}
	if s.counts[job.Faulty] > 0 {
		t.Errorf("a row of a newer format is taken for a malformed one: %v", s.counts)
	}
}

// TestAnOwnerThatHasNotHeardOfARaise: it goes on in the format that it finds.
func TestAnOwnerThatHasNotHeardOfARaise(t *testing.T) {
	s := New(Config{Partitions: 16, Format: 0}, persistence.Fence{}, time.UnixMilli(0))
	st := &belfryv1.JobState{Generation: 1}
	messages.StampFormat(st, messages.Format)
	if err := s.LoadRow(persistence.Row{JobID: "a", Status: job.Active, State: encode(st)}); err != nil {
		t.Fatal(err)
	}
	if s.cfg.Format != messages.Format {
		t.Errorf("it writes format %d, and has read format %d", s.cfg.Format, messages.Format)
	}
}
