package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// MaxMinutes bounds how long a stretch of time may be.
const MaxMinutes = 31 * 24 * 60

// maxGroups bounds how many schedules are kept until they are counted.
const maxGroups = 4096

// Job is what matters of a job.
type Job struct {
	ID       string
	Timing   job.Timing // with its anchor
	Schedule *job.Schedule
}

// Load is executions a minute in [From, To).
type Load struct {
	From, To time.Time
	Jitter   time.Duration // that jobs without any are given in Jittered

	Jobs       int64
	Executions int64
	Minutes    []int64
	Jittered   []float64 // expected, if jobs had jitter, up to half the way to their next slot
	Hashed     []float64 // expected, if jobs with a fixed minute had H there
	Fixed      int64     // jobs with a fixed minute

	groups map[job.Key]*group
}

// group is jobs that share a schedule.
type group struct {
	Job
	n int64
}

// New is a load of whole minutes, without jobs.
func New(from, to time.Time, jitter time.Duration) *Load {
	from = from.Truncate(time.Minute)
	n := int(to.Sub(from) / time.Minute)
	return &Load{
		From: from, To: from.Add(time.Duration(n) * time.Minute), Jitter: jitter,
		Minutes: make([]int64, n), Jittered: make([]float64, n), Hashed: make([]float64, n), groups: map[job.Key]*group{},
	}
}

// Add counts a job.
func (l *Load) Add(j Job) {
	l.Jobs++
	if fixedMinute(j.Timing) {
		l.Fixed++
	}
	if j.Timing.Jitter > 0 || !j.Timing.Shared() {
		l.count(&group{j, 1})
		return
	}
	key := j.Timing.Key()
	if g := l.groups[key]; g != nil {
		g.n++
		return
	}
	if len(l.groups) == maxGroups {
		l.Flush()
	}
	l.groups[key] = &group{j, 1}
}

// Flush counts what is still to be counted.
func (l *Load) Flush() {
	for _, g := range l.groups {
		l.count(g)
	}
	clear(l.groups)
}

func (l *Load) count(g *group) {
	fixed := fixedMinute(g.Timing)
	for slot, due := range g.due(l.From, l.To) {
		n, minute := float64(g.n), l.minute(due)
		l.Minutes[minute] += g.n
		l.Executions += g.n
		switch {
		case g.Timing.Jitter > 0:
			l.Jittered[minute] += n
		default:
			l.spread(l.Jittered, slot, min(l.Jitter, g.room(slot)), n)
		}
		if fixed {
			l.spread(l.Hashed, slot.Add(-time.Duration(g.Schedule.In(slot).Minute())*time.Minute), time.Hour, n)
		} else {
			l.Hashed[minute] += n
		}
	}
}

// due is the slots of a job that are due in [from, to), and when they are.
func (j *Job) due(from, to time.Time) func(func(slot, due time.Time) bool) {
	return func(yield func(slot, due time.Time) bool) {
		at := from.Add(-j.Timing.Jitter - time.Nanosecond)
		for slot, ok := j.Schedule.Next(at); ok && slot.Before(to); slot, ok = j.Schedule.Next(slot) {
			due := j.Schedule.Due(j.ID, slot)
			if !due.Before(from) && due.Before(to) && !yield(slot, due) {
				return
			}
		}
	}
}

// room is how much jitter a slot has: half the way to the next one.
func (j *Job) room(slot time.Time) time.Duration {
	if next, ok := j.Schedule.Next(slot); ok {
		return next.Sub(slot) / 2
	}
	return job.MaxJitter
}

func (l *Load) minute(at time.Time) int { return int(at.Sub(l.From) / time.Minute) }

// spread puts n executions evenly over a while from an instant on, as far as it
// lies in the load.
func (l *Load) spread(over []float64, from time.Time, while time.Duration, n float64) {
	if while < time.Second {
		if i := l.minute(from); i >= 0 && i < len(over) {
			over[i] += n
		}
		return
	}
	for at := from; at.Before(from.Add(while)); {
		next := at.Truncate(time.Minute).Add(time.Minute)
		if end := from.Add(while); next.After(end) {
			next = end
		}
		if i := l.minute(at); !at.Before(l.From) && i < len(over) {
			over[i] += n * float64(next.Sub(at)) / float64(while)
		}
		at = next
	}
}

// fixedMinute tells whether a job always runs at one minute of an hour, where
// an H would spread it.
func fixedMinute(t job.Timing) bool {
	fields := strings.Fields(t.Expr)
	if len(t.Exprs) > 0 || len(fields) == 0 {
		return false
	}
	if fields[0][0] == '@' {
		return !t.Anchored()
	}
	if t.Seconds {
		fields = fields[1:]
	}
	return len(fields) >= 5 && strings.Trim(fields[0], "0123456789") == ""
}

// Minute is one minute and who runs in it.
type Minute struct {
	At         time.Time `json:"at"`
	Executions int64     `json:"executions"`
	Jobs       int64     `json:"jobs"`
	Most       []Share   `json:"most"` // jobs with the most executions, some of them
}

// Share is a job's part of a minute.
type Share struct {
	JobID      string `json:"job_id"`
	Executions int64  `json:"executions"`
}

// Worst is the n minutes with the most executions, the worst first.
func (l *Load) Worst(n int) []*Minute {
	order := make([]int, len(l.Minutes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.Minutes[b], l.Minutes[a]) })
	var out []*Minute
	for _, i := range order[:min(n, len(order))] {
		if l.Minutes[i] > 0 {
			out = append(out, &Minute{At: l.From.Add(time.Duration(i) * time.Minute), Executions: l.Minutes[i]})
		}
	}
	return out
}

// Add notes a job's part of a minute, and keeps so many of the biggest parts.
func (m *Minute) Add(j *Job, most int) {
	n, end := int64(0), m.At.Add(time.Minute)
	if j.Timing.Jitter == 0 {
		n = j.Schedule.Count(m.At.Add(-time.Nanosecond), end.Add(-time.Nanosecond))
	} else {
		for range j.due(m.At, end) {
			n++
		}
	}
	if n == 0 {
		return
	}
	m.Jobs++
	at, _ := slices.BinarySearchFunc(m.Most, Share{j.ID, n}, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Executions, a.Executions), cmp.Compare(a.JobID, b.JobID))
	})
	if at == most {
		return
	}
	m.Most = slices.Insert(m.Most, at, Share{j.ID, n})
	m.Most = m.Most[:min(len(m.Most), most)]
}
