package job

import "time"

// Idle finds what a normalised spec sets and nothing would ever look at: whoever
// wrote it expects something else than what the job does. It is not part of
// ValidateCompiled, since what is stored with such a setting goes on.
func (s Spec) Idle() []Problem {
	v := &validation{}
	if s.OverlapQueue != DefaultOverlapQueue && (s.Overlap == OverlapSkip || s.Overlap == OverlapReplace) {
		v.refuse("overlap_queue", "%d has no effect, since with overlap %s no executions wait in a queue: say overlap queue, or leave it out", s.OverlapQueue, s.Overlap)
	}
	if !s.Schedule.Triggered {
		return v.problems
	}
	scheduleOnly := func(field string, set bool, value any) {
		if set {
			v.refuse(field, "%v has no effect: it is about the slots of a schedule, and the jobs of depends_on are what triggers this one: leave one of the two out", value)
		}
	}
	t := s.Schedule
	scheduleOnly("starts_at", !t.StartsAt.IsZero(), t.StartsAt.Format(time.RFC3339))
	scheduleOnly("ends_at", !t.EndsAt.IsZero(), t.EndsAt.Format(time.RFC3339))
	scheduleOnly("exclude", len(t.Exclude) > 0, t.Exclude)
	scheduleOnly("jitter", t.Jitter != 0, t.Jitter)
	scheduleOnly("max_runs", s.MaxRuns > 0, s.MaxRuns)
	return v.problems
}
