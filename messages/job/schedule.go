package job

import "time"

// Schedule answers when a job is due. It is immutable, small, and safe for
// concurrent use, so many jobs may share one.
//
// Slots are instants in UTC with whole milliseconds. A cron expression is
// evaluated on the wall clock of its zone (see walltime.go). The slots of
// @every are anchor + k·D for k ≥ 1; when the anchor is starts_at itself, the
// slot at starts_at (k = 0) is due too. Without an anchor and without
// starts_at, as in a preview, the anchor is 1970-01-01. Of several expressions
// an instant that more than one has is one slot (see many.go). On an excluded
// date nothing is due.
type Schedule struct {
	cron     cronFields
	zone     *zone
	grid     grid  // kindEvery
	from, to int64 // slots lie in [from, to), milliseconds
	kind     exprKind
	gapSkip  bool
	foldBoth bool
	many     *many    // kindMany
	excluded []window // Invariant: ascending and apart
	jitter   int64    // milliseconds
}

// Compile parses and checks a Timing. A refusal is an *Invalid that names
// every field found wrong, why, and what to write instead. Whether an instant
// lies in the past is not judged here: there is no clock.
func Compile(t Timing) (*Schedule, error) {
	if t.Triggered {
		return triggered(t)
	}
	var problems []Problem
	note := func(bad *Invalid) {
		if bad != nil {
			problems = append(problems, bad.Problems...)
		}
	}
	es, bad := parseAll(t)
	note(bad)
	z, bad := loadZone(t.Zone)
	note(bad)
	note(checkRules(t))
	note(checkBounds(t))
	note(checkExclude(t))
	note(checkJitter(t))
	if problems != nil {
		return nil, &Invalid{Problems: problems}
	}
	s := build(t, es, z)
	if bad := s.checkFires(t); bad != nil {
		return nil, bad
	}
	if bad := s.checkOrder(t); bad != nil {
		return nil, bad
	}
	return s, nil
}

func build(t Timing, es []expression, z *zone) *Schedule {
	e := es[0]
	s := &Schedule{
		cron: e.cron, zone: z, kind: e.kind, excluded: z.windows(t.Exclude), jitter: t.Jitter.Milliseconds(),
		from: calendarStart.UnixMilli(), to: calendarEnd.UnixMilli(),
		gapSkip: t.Gap == GapSkip, foldBoth: t.Fold == FoldBoth,
	}
	if !t.StartsAt.IsZero() {
		s.from = t.StartsAt.UnixMilli()
	}
	if !t.EndsAt.IsZero() {
		s.to = t.EndsAt.UnixMilli()
	}
	switch {
	case len(es) > 1:
		s.kind, s.many = kindMany, manyOf(es)
	case e.kind == kindOnce:
		s.grid.anchor = e.at.UnixMilli()
	case e.kind == kindEvery:
		s.grid = gridOf(t, e.every)
	}
	return s
}

func gridOf(t Timing, every time.Duration) grid {
	anchor := t.Anchor
	if anchor.IsZero() {
		anchor = t.StartsAt
	}
	g := grid{step: every.Milliseconds(), first: 1}
	if !anchor.IsZero() {
		g.anchor = anchor.UnixMilli()
		if anchor.Equal(t.StartsAt) {
			g.first = 0
		}
	}
	return g
}

func checkRules(t Timing) *Invalid {
	bad := &Invalid{}
	if t.Gap != "" && t.Gap != GapRunAfter && t.Gap != GapSkip {
		bad.Problems = append(bad.Problems, Problem{"dst.gap", quote(printable(string(t.Gap))) + ` is not a rule for skipped wall times; write "run_after" or "skip", or leave it out for "run_after"`})
	}
	if t.Fold != "" && t.Fold != FoldFirst && t.Fold != FoldBoth {
		bad.Problems = append(bad.Problems, Problem{"dst.fold", quote(printable(string(t.Fold))) + ` is not a rule for repeated wall times; write "first" or "both", or leave it out for "first"`})
	}
	if bad.Problems == nil {
		return nil
	}
	return bad
}

func checkBounds(t Timing) *Invalid {
	for _, b := range []struct {
		field string
		at    time.Time
	}{{"starts_at", t.StartsAt}, {"ends_at", t.EndsAt}, {"anchor", t.Anchor}} {
		switch {
		case b.at.IsZero():
		case standsForNone(b.at):
			return Refuse(b.field, "1970-01-01T00:00:00Z is where clocks of computers begin, and stands for no instant; choose a later one, or leave it out")
		case !inCalendar(b.at):
			return Refuse(b.field, "lies outside the calendar of schedules, the years %d to %d; choose an instant in it, or leave it out", firstYear, lastYear)
		case b.field != "anchor" && b.at.Nanosecond()%int(time.Millisecond) != 0:
			return Refuse(b.field, "is finer than a millisecond, the unit of a due time, and is not rounded; write at most three decimals")
		}
	}
	if !t.StartsAt.IsZero() && !t.EndsAt.IsZero() && !t.EndsAt.After(t.StartsAt) {
		return Refuse("ends_at", "%s is not later than starts_at %s, so nothing could be due between them; move one of the two",
			t.EndsAt.UTC().Format(time.RFC3339Nano), t.StartsAt.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// checkFires refuses a schedule without a single slot.
func (s *Schedule) checkFires(t Timing) *Invalid {
	if _, ok := s.nextMilli(s.from); ok {
		return nil
	}
	field := "schedule_expr"
	if len(t.Exprs) > 0 {
		field = "schedule_exprs"
	}
	switch {
	case len(t.Exclude) > 0:
		return Refuse("exclude", "with these dates left out it can never fire; leave out fewer, or change the schedule")
	case t.StartsAt.IsZero() && t.EndsAt.IsZero():
		return Refuse(field, "can never fire from the year %d to %d; choose a schedule that does", firstYear, lastYear)
	}
	return Refuse(field, "can never fire: it has no due time at or after starts_at and before ends_at; widen the two, or change the expression")
}

// Next is the first slot strictly after an instant; false when nothing is
// due any more.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	if !after.Before(calendarEnd) {
		return time.Time{}, false
	}
	ms, ok := s.nextMilli(afterMilli(after))
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).UTC(), true
}

// Has reports whether an instant is one of the slots.
func (s *Schedule) Has(at time.Time) bool {
	next, ok := s.Next(at.Add(-time.Nanosecond))
	return ok && next.Equal(at)
}

// Once reports whether the schedule is a single instant.
func (s *Schedule) Once() bool { return s.kind == kindOnce }

// In is an instant on the wall clock of the schedule's zone.
func (s *Schedule) In(t time.Time) time.Time { return t.In(s.zone.loc) }

// afterMilli is the first millisecond that is later than t. A slot has whole
// milliseconds, so what lies between them does not matter.
func afterMilli(t time.Time) int64 {
	if t.Before(calendarStart) {
		return calendarStart.UnixMilli()
	}
	return t.UnixMilli() + 1
}

// nextMilli is the first slot at or after ms.
func (s *Schedule) nextMilli(ms int64) (int64, bool) {
	for ms = max(ms, s.from); ; {
		next, ok := s.nextDue(ms)
		if !ok || next >= s.to {
			return 0, false
		}
		w, out := s.excludedAt(next)
		if !out {
			return next, true
		}
		ms = w.hi
	}
}

// nextDue is nextMilli without bounds and excluded dates.
func (s *Schedule) nextDue(ms int64) (next int64, ok bool) {
	switch s.kind {
	case kindCron:
		next, ok = s.nextCron(&s.cron, ceilDiv(ms, 1000))
		return next * 1000, ok
	case kindEvery:
		return s.grid.next(ms)
	case kindMany:
		return s.nextMany(ms)
	}
	return s.grid.anchor, ms <= s.grid.anchor
}

// countMilli is the number of slots in [lo, hi).
func (s *Schedule) countMilli(lo, hi int64) int64 {
	lo, hi = max(lo, s.from), min(hi, s.to)
	n := s.countDue(lo, hi)
	for _, w := range s.excludedIn(lo, hi) {
		n -= s.countDue(max(lo, w.lo), min(hi, w.hi))
	}
	return n
}

// countDue is countMilli without bounds and excluded dates.
func (s *Schedule) countDue(lo, hi int64) int64 {
	switch {
	case lo >= hi:
		return 0
	case s.kind == kindCron:
		return s.countCron(&s.cron, ceilDiv(lo, 1000), ceilDiv(hi, 1000))
	case s.kind == kindEvery:
		return s.grid.count(lo, hi)
	case s.kind == kindMany:
		return s.countMany(lo, hi)
	case lo <= s.grid.anchor && s.grid.anchor < hi:
		return 1
	}
	return 0
}
