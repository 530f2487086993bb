package queue

import (
	"slices"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// staleAfter is how long a hint counts: its owner repeats it every two seconds
// while anything waits, so two may be lost.
const staleAfter = 5 * time.Second

// broker matches the polls for one queue to what its owners hint at. It is pure.
type broker struct {
	stocks map[int32]*stock // by partition
	turns  []*stock         // the next one first. Invariant: exactly those of stocks.
	polls  []*poll          // the oldest first. Invariant: none while anything is in stock.
}

// stock is what waits at one owner, as far as is known.
type stock struct {
	partition int32
	count     int32 // hinted at, less what gateways were referred to since
	jobs      int32
	served    int32 // in this turn
	heard     time.Time
}

// poll is a gateway that waits for something.
type poll struct {
	id    string
	max   int32
	until time.Time
	reply func(*belfryv1.Referral)
}

func newBroker() *broker { return &broker{stocks: map[int32]*stock{}} }

// hint takes what an owner says, and serves who waits for it.
func (b *broker) hint(now time.Time, h *belfryv1.Hint) {
	s := b.stocks[h.GetPartition()]
	if s == nil {
		s = &stock{partition: h.GetPartition()}
		b.stocks[s.partition] = s
		b.turns = append(b.turns, s)
	}
	s.count, s.jobs, s.heard = h.GetCount(), h.GetJobs(), now
	for len(b.polls) > 0 && b.serve(now, b.polls[0]) {
		b.polls = b.polls[1:]
	}
}

// poll serves a gateway at once, or lets it wait for as long as it says.
func (b *broker) poll(now time.Time, p *poll) {
	switch {
	case b.serve(now, p):
	case p.until.After(now):
		b.polls = append(b.polls, p)
	default:
		p.reply(&belfryv1.Referral{})
	}
}

// unpoll ends a wait: nobody is there for its answer.
func (b *broker) unpoll(id string) {
	b.polls = slices.DeleteFunc(b.polls, func(p *poll) bool { return p.id == id })
}

// serve refers a gateway to the partition whose turn it is; false: nothing waits
// anywhere.
func (b *broker) serve(now time.Time, p *poll) bool {
	for len(b.turns) > 0 {
		s := b.turns[0]
		if s.count <= 0 || now.Sub(s.heard) > staleAfter {
			b.turns = b.turns[1:]
			delete(b.stocks, s.partition)
			continue
		}
		n := min(p.max, s.count)
		s.count -= n
		if s.served += n; s.served >= s.jobs {
			s.served = 0
			b.turns = append(b.turns[1:], s)
		}
		p.reply(&belfryv1.Referral{Found: true, Partition: s.partition})
		return true
	}
	return false
}

// expire answers those who have waited long enough.
func (b *broker) expire(now time.Time) {
	b.polls = slices.DeleteFunc(b.polls, func(p *poll) bool {
		over := !p.until.After(now)
		if over {
			p.reply(&belfryv1.Referral{})
		}
		return over
	})
}

// idle tells that nobody waits, and that no hint of it counts any more.
func (b *broker) idle(now time.Time) bool {
	for _, s := range b.stocks {
		if now.Sub(s.heard) <= staleAfter {
			return false
		}
	}
	return len(b.polls) == 0
}
