package job

import "time"

// MissedRange is consecutive slots that do not run: one record for all.
type MissedRange struct {
	First, Last time.Time // zero when Count is 0
	Count       int64
}

// CatchUpPlan is the decision over the slots that came due while nobody
// could send. The slots that run are contiguous and end with the newest,
// unless none runs; what is missed is older than what runs.
type CatchUpPlan struct {
	Late       bool        // the gap was within grace: every slot runs, none is missed
	RunFrom    time.Time   // oldest slot to run; zero when RunCount is 0
	RunTo      time.Time   // newest slot to run
	RunCount   int         // how many run, oldest first
	Missed     MissedRange // what does not run
	OldestSlot time.Time   // the oldest slot of all, from which the gap was measured; zero when there was none
}

// PlanCatchUp decides over the slots in (cursor, now]. The gap is now minus
// the oldest of them; within p.Grace it was no outage and every slot runs
// late. A longer one is judged by the policy: latest runs the newest slot,
// all the newest p.Max of those within p.Window of now, none runs nothing.
//
// The plan is ends and counts, so two weeks of missed seconds are as small as
// one (riverqueue/river#1035), and a limit on what runs never ends a job's
// life (kubernetes/kubernetes#42649).
func PlanCatchUp(s *Schedule, p CatchUp, cursor, now time.Time) CatchUpPlan {
	lo, hi := afterMilli(cursor), throughMilli(now)
	total := s.countMilli(lo, hi)
	if total == 0 {
		return CatchUpPlan{}
	}
	oldest := s.nth(lo, hi, 1)
	plan := CatchUpPlan{OldestSlot: oldest}
	if now.Sub(oldest) <= p.Grace {
		plan.Late = true
		plan.split(s, lo, hi, total, total)
		return plan
	}
	run := int64(1)
	switch p.Policy {
	case CatchUpNone:
		run = 0
	case CatchUpAll:
		within := s.countMilli(max(lo, afterMilli(now.Add(-p.Window-time.Nanosecond))), hi)
		run = min(within, int64(max(p.Max, 0)))
	}
	plan.split(s, lo, hi, total, run)
	return plan
}

// split fills in the plan when the newest run of total slots run.
func (p *CatchUpPlan) split(s *Schedule, lo, hi, total, run int64) {
	if missed := total - run; missed > 0 {
		p.Missed = MissedRange{First: s.nth(lo, hi, 1), Last: s.nth(lo, hi, missed), Count: missed}
	}
	if run > 0 {
		p.RunFrom, p.RunTo, p.RunCount = s.nth(lo, hi, total-run+1), s.nth(lo, hi, total), int(run)
	}
}
