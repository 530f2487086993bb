package foreign

import (
	"iter"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Difference is an instant at which a scheduler and Belfry do not fire alike.
type Difference struct {
	At    time.Time
	There int // how often it fires there
	Here  int
}

// Compare yields every difference in [from, to), ascending.
func Compare(there Fires, here *job.Schedule, from, to time.Time) iter.Seq[Difference] {
	return func(yield func(Difference) bool) {
		next, stop := iter.Pull(there(from, to))
		defer stop()
		theirs, more := next()
		ours, due := here.Next(from.Add(-time.Nanosecond))
		due = due && ours.Before(to)
		for more || due {
			d := Difference{At: ours}
			if more && (!due || theirs.Before(ours)) {
				d.At = theirs
			}
			if due && ours.Equal(d.At) {
				d.Here = 1
				ours, due = here.Next(ours)
				due = due && ours.Before(to)
			}
			for more && theirs.Equal(d.At) {
				d.There++
				theirs, more = next()
			}
			if d.There != d.Here && !yield(d) {
				return
			}
		}
	}
}

// Changes tells whether a zone's clock is changed within hours of an instant.
func Changes(zone *time.Location, at time.Time) bool {
	const around = 4 * time.Hour
	_, before := at.Add(-around).In(zone).Zone()
	_, after := at.Add(around).In(zone).Zone()
	return before != after
}
