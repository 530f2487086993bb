package execution

import "sync/atomic"

// idleHands is how many goroutines of a crew wait for work at most.
const idleHands = 1024

// crew makes calls in goroutines that stay for the next one: the stack that a
// call needs is grown once and not once a delivery.
type crew struct {
	work chan func()
	idle atomic.Int32
	over chan struct{}
}

func newCrew() *crew { return &crew{work: make(chan func()), over: make(chan struct{})} }

// do runs f in a goroutine, at once.
func (c *crew) do(f func()) {
	select {
	case c.work <- f:
	default:
		go c.hand(f)
	}
}

func (c *crew) hand(f func()) {
	for {
		f()
		f = nil
		if c.idle.Add(1) > idleHands {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.work:
			c.idle.Add(-1)
		case <-c.over:
			return
		}
	}
}

// dismiss ends the goroutines as their calls end. What is begun afterwards
// still runs.
func (c *crew) dismiss() { close(c.over) }
