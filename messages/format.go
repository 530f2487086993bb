package messages

import (
	"fmt"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// released is the highest format that this version of Belfry writes.
const released = 1

// Format is the highest format of stored messages that this build knows.
const Format = released + beyond

// NewerFormat is a stored message of a format that this build does not know.
type NewerFormat struct {
	Format int
}

func (e *NewerFormat) Error() string {
	return fmt.Sprintf("it has format %d, and this build knows formats up to %d: a newer version of Belfry reads it", e.Format, Format)
}

// FormatOf is the format that a job's row was written in. The state tells for
// the specs beside it: a batch that writes a spec writes the state, too, and
// formats only grow.
func FormatOf(st *belfryv1.JobState) int { return max(1, int(st.GetFormat())) }

// CheckFormat is a *NewerFormat when this build does not know what a job's row
// is written in.
func CheckFormat(st *belfryv1.JobState) error {
	if f := FormatOf(st); f > Format {
		return &NewerFormat{f}
	}
	return nil
}

// StampFormat says in a job's state which format it is written in. The first
// one is not said, and takes no room.
func StampFormat(st *belfryv1.JobState, format int) {
	if st.Format = int32(format); format <= 1 {
		st.Format = 0
	}
}
