package partition

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// A job's stored state has a bound: maxState. What is asked for is refused, or
// waits, when an execution more might not fit; what has happened is never refused.
// So an execution counts from the first on as what its entry may grow to. Texts
// that only inform (errors, reasons, names of workers) are cut short when there is
// no room for more than that.

const (
	maxState  = 16 << 10      // bytes of a job's stored state
	restRoom  = 2 << 10       // what all but executions may grow by
	textless  = 10 << 10      // that errors and reasons leave to other executions
	liveRoom  = 4 << 10       // that catch-ups and backfills leave to the schedule
	shortText = 16            // bytes of an informative text that there is always room for
	entryRoom = 67            // an entry's numbers: five instants and a revision of 7, four epochs of 5, and flags
	leaseRoom = 28            // of a lease but its worker's name
	runRoom   = 16            // of a run but its names
	askedRoom = 160           // a backfill
	endedRoom = 2 * shortText // what that grows by until it ends
)

// most is how many bytes a flight's entry has at most until it ends, in the row of
// a registration.
func (f *flight) most(gen int64) int {
	n := entryRoom + 2 + max(shortText, len(f.cancel))
	if f.hash != "" {
		n += 2 + len(f.hash)
	}
	if f.run != nil {
		n += runRoom + len(f.run.GetId()) + len(f.run.GetRoot())
	}
	if f.replay != nil {
		n += 3 + proto.Size(f.replay)
	}
	if f.backfill != 0 {
		n += 10
	}
	if f.gen != gen {
		n += 3 + len(f.id)
	}
	if f.lastError != "" {
		n += 2 + len(f.lastError)
	}
	if f.claimable() {
		n += leaseRoom + max(shortText, len(cmp.Or(f.lease, f.lost).holder()))
	}
	return n
}

// spare is how many bytes a job's state has left for more.
func (j *jobRec) spare() int { return j.spareAs(j.gen) }

// spareAs is spare if the job were of another registration.
func (j *jobRec) spareAs(gen int64) int {
	n := maxState - restRoom - proto.Size(j.rest())
	for range j.unendedBackfills() {
		n -= endedRoom
	}
	for _, f := range j.flights() {
		n -= f.most(gen)
	}
	return n
}

// fits tells that a new flight's entry has room, whatever becomes of it.
func (f *flight) fits() bool { return f.most(f.job.gen) <= f.job.spare() }

// cut cuts an informative text to what a job has room for beside the executions
// that it may still get, most bytes at most. free is what it may have in any case.
func (j *jobRec) cut(text string, free, most int) string {
	return clip(text, min(most, free+max(j.spare()-textless, 0)))
}

// crowded refuses one execution more.
func (s *State) crowded(j *jobRec) (*change, *belfryv1.Answer) {
	return s.refuse(belfryv1.Refusal_CODE_BUSY, "", "the %d unfinished executions of the job take up the %d KiB that are kept of it: wait for some to end, or cancel them", len(j.flights()), maxState>>10)
}

// crammed says why a job cannot be registered again yet: what runs of the
// registration before is in the same row, under its full name. "": it can.
func (j *jobRec) crammed() string {
	if j == nil || j.status != job.Deleted || j.spareAs(0) >= 0 {
		return ""
	}
	return "too many executions of the deleted job still run: wait for some to end"
}
