package job

import "time"

// Bounds of backfills.
const (
	MaxBackfills           = 16      // of one job that have not ended
	MaxBackfillSlots       = 100_000 // of one backfill
	MaxBackfillConcurrency = 20      // executions of one backfill that may be unfinished at once
	BackfillConcurrency    = 4       // of them, where several are allowed and nobody says how many
)

// PlanBackfill finds the slots of [from, to) that a backfill asked for at now
// would run: exactly those that the schedule has, so the hour that a change of
// the clock skips, and a date that is excluded, are none here either. An *Invalid
// says why there is nothing to run.
//
// keep is how long history is kept: what ran for an older slot would leave no
// record.
func PlanBackfill(s *Schedule, from, to, now time.Time, keep time.Duration) (MissedRange, error) {
	switch oldest := now.Add(-keep); {
	case !from.Before(to):
		return MissedRange{}, Refuse("to", "%s is not later than from, %s: from is the first instant of the range, and to is the first one after it", stamp(to), stamp(from))
	case to.After(now):
		return MissedRange{}, Refuse("to", "%s is later than now, %s, and the slots to come are the live schedule's: choose an earlier one, or leave it out for now", stamp(to), stamp(now))
	case from.Before(oldest):
		return MissedRange{}, Refuse("from", "%s is too long ago: history is kept for %s, and what ran for slots before %s would leave no record: choose a later one", stamp(from), keep, stamp(oldest))
	}
	m := s.Missed(from.Add(-time.Nanosecond), to.Add(-time.Nanosecond), 0)
	switch {
	case m.Count == 0:
		return MissedRange{}, Refuse("from", "the schedule has no slot from %s up to, and not including, %s: widen the two", stamp(from), stamp(to))
	case m.Count > MaxBackfillSlots:
		return MissedRange{}, Refuse("to", "the range has %d slots, and at most %d are allowed in one backfill: split it", m.Count, MaxBackfillSlots)
	}
	return MissedRange{First: m.First, Last: m.Last, Count: m.Count}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
