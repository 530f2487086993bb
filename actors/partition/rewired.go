package partition

import (
	"slices"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Runs that wait in a job whose upstreams change are skipped: what they wait for
// may never come. They may be too many for the batch of the change. So that only
// draws a number, and a run that began to wait under an earlier one is over from
// then on, whoever owns the partition. It is said so of all at the end of the
// step, before any other outcome is taken, or after the load. They are kept like
// all that is skipped: the job runs after all when what are its upstreams now have
// succeeded.

const rewireReason = "the dependencies were changed"

// skippedAtOnce is how many runs a change skips: it has to fit in a batch.
const skippedAtOnce = 50

// rewired notes, in a change of a job, that its upstreams are others now.
func (s *State) rewired(j *jobRec) {
	if j.links == nil || len(j.links.joins) == 0 {
		return
	}
	j.links.wired = s.draw()
	s.rewires = append(s.rewires, j)
}

// skipRewired skips the runs that waited for upstreams that were changed.
func (s *State) skipRewired() {
	for len(s.rewires) > 0 {
		j := s.rewires[0]
		s.rewires = s.rewires[1:]
		s.guard(j.id, func() { s.skipOver(j) })
	}
}

// over tells that a run waits for upstreams that the job had before.
func (l *links) over(x *belfryv1.Join) bool { return x.GetCause() == "" && x.GetWired() != l.wired }

func (s *State) skipOver(j *jobRec) {
	if j.status != job.Deleted {
		over := slices.DeleteFunc(slices.Clone(j.links.joins), func(x *belfryv1.Join) bool { return !j.links.over(x) })
		for part := range slices.Chunk(over, skippedAtOnce) {
			c := s.change(j)
			for _, x := range part {
				x.Cause = j.id
				s.skipRun(c, j, x.GetRun(), job.CommandHash(x.GetRun().GetId()), rewireReason, j.id)
				c.row(s.linkRow(j.id, joinItem(x.GetRun()), x))
			}
			c.row(s.row(j, nil))
		}
	}
	if !j.dependent() {
		s.dropJoins(j)
	}
}

// dropJoins forgets the runs that wait in a job, or were skipped.
func (s *State) dropJoins(j *jobRec) {
	rows := make([]persistence.Row, len(j.links.joins))
	for i, x := range j.links.joins {
		rows[i] = s.linkRow(j.id, joinItem(x.GetRun()), nil)
	}
	j.links.joins = nil
	s.dropRows(rows)
}
