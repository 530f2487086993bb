package gateway

import (
	"context"
	"sync"
)

// outbox holds answers for a client that sends all of its lines before it reads
// the first answer: up to its size, sending goes on.
type outbox struct {
	max   int
	mu    sync.Mutex
	held  []byte
	ended bool
	more  chan struct{} // something was put, or it was closed
	room  chan struct{} // something was taken
}

func newOutbox(max int) *outbox {
	return &outbox{max: max, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds bytes when there is room.
func (o *outbox) put(ctx context.Context, b []byte) error {
	for {
		o.mu.Lock()
		fits := len(o.held) == 0 || len(o.held)+len(b) <= o.max
		if fits {
			o.held = append(o.held, b...)
		}
		o.mu.Unlock()
		if fits {
			signal(o.more)
			return nil
		}
		select {
		case <-o.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	signal(o.more)
}

// drain writes what is put until the outbox is closed and empty.
func (o *outbox) drain(out *lines) error {
	var spare []byte // never the array that puts go to
	for {
		b, ended := o.take(spare)
		if len(b) == 0 {
			if ended {
				return nil
			}
			<-o.more
			continue
		}
		signal(o.room)
		if out.write(b); out.err != nil {
			return out.err
		}
		spare = b[:0]
	}
}

// take returns all that is held, and holds what comes next in spare.
func (o *outbox) take(spare []byte) (b []byte, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) > 0 {
		b, o.held = o.held, spare
	}
	return b, o.ended
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
