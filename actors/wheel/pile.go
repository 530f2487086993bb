package wheel

// pile is a heap of the timers behind the position: few, and none at all while
// the clock runs forward and nothing is scheduled in the past.
type pile[T any] struct {
	entries []entry[T]
	count   uint64
}

type entry[T any] struct {
	at    int64
	order uint64 // of insertion
	timer *Timer[T]
}

func (e entry[T]) before(o entry[T]) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

func (p *pile[T]) first() *Timer[T] {
	if len(p.entries) == 0 {
		return nil
	}
	return p.entries[0].timer
}

func (p *pile[T]) add(t *Timer[T]) {
	t.next, t.prev = nil, nil
	p.count++
	p.entries = append(p.entries, entry[T]{at: t.at, order: p.count, timer: t})
	t.place = len(p.entries)
	p.up(len(p.entries) - 1)
}

func (p *pile[T]) remove(t *Timer[T]) {
	i, last := t.place-1, len(p.entries)-1
	p.swap(i, last)
	p.entries[last] = entry[T]{}
	p.entries = p.entries[:last]
	t.place = 0
	if i < last {
		p.down(i)
		p.up(i)
	}
	if last == 0 {
		p.entries = nil // a step of the clock is rare: give the memory back
	}
}

func (p *pile[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !p.entries[i].before(p.entries[parent]) {
			return
		}
		p.swap(i, parent)
		i = parent
	}
}

func (p *pile[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(p.entries) {
			return
		}
		if right := child + 1; right < len(p.entries) && p.entries[right].before(p.entries[child]) {
			child = right
		}
		if !p.entries[child].before(p.entries[i]) {
			return
		}
		p.swap(i, child)
		i = child
	}
}

func (p *pile[T]) swap(i, j int) {
	p.entries[i], p.entries[j] = p.entries[j], p.entries[i]
	p.entries[i].timer.place, p.entries[j].timer.place = i+1, j+1
}
