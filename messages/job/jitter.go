package job

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Jitter moves when an execution is due, never what it is called: scheduled_for
// stays the slot. How far is made from the job's id and the slot, so that every
// node and every restart comes to the same, and jobs that share a schedule are
// spread. The order of a job's slots stays: none is moved by half the way to the
// next one or more, also where a change of the clock brings two close together.

// MaxJitter bounds jitter.
const MaxJitter = 24 * time.Hour

func checkJitter(t Timing) *Invalid {
	switch {
	case t.Jitter < 0 || t.Jitter > MaxJitter:
		return Refuse("jitter", "%v is not from 0s to %v", t.Jitter, MaxJitter)
	case t.Jitter%time.Millisecond != 0:
		return Refuse("jitter", "%v is finer than a millisecond, the unit of a due time; write whole milliseconds", t.Jitter)
	}
	return nil
}

// slotsCompared is how many slots are looked at for the smallest interval.
const slotsCompared = 500

// checkOrder refuses a jitter of half the smallest interval or more.
func (s *Schedule) checkOrder(t Timing) *Invalid {
	if s.jitter == 0 {
		return nil
	}
	const y2026 = 1767225600000 // any instant does that is the same on every node
	least := int64(-1)
	before, ok := s.nextMilli(max(s.from, y2026))
	for i := 0; ok && i < slotsCompared; i++ {
		var next int64
		if next, ok = s.nextMilli(before + 1); ok && (least < 0 || next-before < least) {
			least = next - before
		}
		before = next
	}
	if least < 0 || 2*s.jitter < least {
		return nil
	}
	return Refuse("jitter", "%v is not less than half of %v, the smallest interval of the schedule, so that executions could come close to the next ones; write less than %v",
		t.Jitter, time.Duration(least)*time.Millisecond, time.Duration(least/2)*time.Millisecond)
}

// Due is when the execution of a slot of a job is due: the slot, or up to the
// jitter later.
func (s *Schedule) Due(jobID string, slot time.Time) time.Time {
	if s.jitter == 0 {
		return slot
	}
	var name [8]byte
	binary.BigEndian.PutUint64(name[:], uint64(slot.UnixMilli()))
	h := xxhash.New()
	_, _ = h.WriteString(jobID) // neither fails
	_, _ = h.Write(name[:])
	later := int64(h.Sum64() % uint64(s.jitter))
	if next, ok := s.Next(slot); ok {
		later = min(later, (next.Sub(slot).Milliseconds()-1)/2)
	}
	return slot.Add(time.Duration(later) * time.Millisecond)
}

func jitterWords(t Timing) string {
	if t.Jitter == 0 {
		return ""
	}
	return ", each less than " + t.Jitter.String() + " later"
}
