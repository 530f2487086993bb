package partition

// ofStore tells the events that still matter once the partition is given up:
// what the store says of the batches that are on their way to it.
func ofStore(e Event) bool {
	switch e.(type) {
	case Tick, Applied, Refused, Unavailable, InDoubt, Settled, Fenced:
		return true
	}
	return false
}

// yielded ends the state when everything that was decided is durable. What was
// reported or asked since the Yield is the next owner's.
func (s *State) yielded() {
	if s.queue.flying != nil || s.queue.lines.len() > 0 {
		return
	}
	s.emit(Yielded{Fence: s.queue.fence})
	s.done = true
}
