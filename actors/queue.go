package actors

// queue is a ring that grows. An idle actor's holds nothing, and after a burst
// the memory is given back.
type queue struct {
	ring  []any
	first int
	len   int
}

const (
	smallRing = 4
	keptRing  = 256
)

func (q *queue) push(v any) {
	q.grow()
	q.ring[(q.first+q.len)&(len(q.ring)-1)] = v
	q.len++
}

func (q *queue) pushFront(v any) {
	q.grow()
	q.first = (q.first - 1) & (len(q.ring) - 1)
	q.ring[q.first] = v
	q.len++
}

// pop takes out the first value of a queue that is not empty.
func (q *queue) pop() any {
	v := q.ring[q.first]
	q.ring[q.first] = nil
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.len--
	if q.len == 0 && len(q.ring) > keptRing {
		q.ring, q.first = nil, 0
	}
	return v
}

func (q *queue) grow() {
	if q.len < len(q.ring) {
		return
	}
	ring := make([]any, max(smallRing, 2*len(q.ring)))
	n := copy(ring, q.ring[q.first:])
	copy(ring[n:], q.ring[:q.first])
	q.ring, q.first = ring, 0
}
