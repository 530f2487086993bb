package partition

import (
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// runs is what a job with max_runs has been given, and how far that goes. Slots
// are counted by the schedule and not one by one, whatever becomes of them, so
// that no crash, repeat or takeover can make the number wrong; an edit adds up
// what the definition before it has given.
type runs struct {
	before int64 // slots given before since, by earlier definitions
	since  int64 // instant from which on the present schedule's slots count
	last   int64 // the last slot. Invariant: no later one is armed or recorded.
}

func storedRuns(st *belfryv1.JobState) *runs {
	if st.GetLastSlot() == 0 {
		return nil
	}
	return &runs{st.GetRunsBefore(), st.GetRunsSince(), st.GetLastSlot()}
}

// given is a job's schedule without the slots after its last one.
func (j *jobRec) given(sched *job.Schedule) *job.Schedule {
	if j.past == nil || j.past.runs == nil {
		return sched
	}
	return sched.Until(time.UnixMilli(j.past.runs.last))
}

// ration finds the last slot of a definition that takes effect at an instant,
// and is its schedule up to that. The first one with max_runs counts from
// starts_at, so that "five times from noon on" are the same five whenever it is
// registered, or else from the instant.
func (j *jobRec) ration(sp *belfryv1.JobSpec, old, sched *job.Schedule, at int64) *job.Schedule {
	var was *runs
	if j.past != nil {
		was, j.past.runs = j.past.runs, nil
	}
	if sp.GetMaxRuns() == 0 {
		return sched
	}
	r := &runs{since: at}
	switch {
	case was == nil:
		r.since = messages.FromTiming(sp.GetTiming()).RunsFrom(time.UnixMilli(at)).UnixMilli()
	case old != nil:
		r.before = was.before + old.Count(time.UnixMilli(was.since), time.UnixMilli(at))
	default:
		r.before = was.before
	}
	r.last = sched.Nth(time.UnixMilli(r.since), sp.GetMaxRuns()-r.before).UnixMilli()
	j.history().runs = r
	return j.given(sched)
}
