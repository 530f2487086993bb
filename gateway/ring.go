package gateway

import (
	"strconv"
	"strings"
	"sync"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// ring keeps the newest events. Readers keep their own place in it, so a slow
// one costs nothing and is found when its place has been overwritten.
type ring struct {
	tag string // of this process: a place in another process's ring means nothing here

	mu     sync.Mutex
	events []*belfryv1.Event
	next   uint64        // number of the event to come; the first one is 1
	wake   chan struct{} // closed when there is more; nil while nobody waits
	closed bool
}

func newRing(size int, tag string) *ring {
	return &ring{tag: tag, events: make([]*belfryv1.Event, size), next: 1}
}

func (r *ring) publish(e *belfryv1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[r.next%uint64(len(r.events))] = e
	r.next++
	r.wakeAll()
}

// close ends all waiting; what is published later reaches nobody.
func (r *ring) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.wakeAll()
}

func (r *ring) wakeAll() {
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// oldest is the number of the oldest event that is kept.
func (r *ring) oldest() uint64 {
	if n := uint64(len(r.events)); r.next > n {
		return r.next - n
	}
	return 1
}

// read appends at most max events from a place on. lost: some of them are gone.
// more is closed when there is something after the last one.
func (r *ring) read(from uint64, into []*belfryv1.Event, max int) (events []*belfryv1.Event, more <-chan struct{}, lost, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from < r.oldest() {
		return into, nil, true, r.closed
	}
	for ; from < r.next && max > 0; max-- {
		into = append(into, r.events[from%uint64(len(r.events))])
		from++
	}
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return into, r.wake, false, r.closed
}

// end is the place after the newest event.
func (r *ring) end() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// id is the name of a place: of the event with that number.
func (r *ring) id(number uint64) string {
	return r.tag + "-" + strconv.FormatUint(number, 10)
}

// after is the place after the event with an id; false when it is not known
// here, or what follows it is not kept any more.
func (r *ring) after(id string) (uint64, bool) {
	tag, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if tag != r.tag || err != nil || r.id(n) != id {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return n + 1, n+1 >= r.oldest() && n < r.next
}
