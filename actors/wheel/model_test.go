package wheel

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// model is the same thing as a list: slow and plainly right.
type model struct {
	list  []modelTimer
	count int
}

type modelTimer struct {
	at    int64
	order int
	id    int
}

func (m *model) schedule(id int, at int64) {
	m.cancel(id)
	m.count++
	m.list = append(m.list, modelTimer{at, m.count, id})
	sort.Slice(m.list, func(i, j int) bool {
		a, b := m.list[i], m.list[j]
		return a.at < b.at || a.at == b.at && a.order < b.order
	})
}

func (m *model) cancel(id int) {
	for i, t := range m.list {
		if t.id == id {
			m.list = append(m.list[:i:i], m.list[i+1:]...)
			return
		}
	}
}

func (m *model) pop(now int64) (int, bool) {
	if len(m.list) == 0 || m.list[0].at > now {
		return 0, false
	}
	id := m.list[0].id
	m.list = m.list[1:]
	return id, true
}

// instants are near each other, near a power of 64, or anywhere at all.
func instants() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(0, 200),
		rapid.Int64Range(1_700_000_000_000, 1_700_000_010_000),
		rapid.Map(rapid.IntRange(0, 62), func(s int) int64 { return 1 << s }),
		rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, math.MaxInt64 - 1, math.MaxInt64, 253_402_300_799_000}),
		rapid.Int64(),
	)
}

func property(t *rapid.T) {
	start := instants().Draw(t, "start")
	w, m := New[int](start), new(model)
	timers := make([]Timer[int], 12)
	for i := range timers {
		timers[i].Value = i
	}
	pick := rapid.IntRange(0, len(timers)-1)
	t.Repeat(map[string]func(*rapid.T){
		"schedule": func(t *rapid.T) {
			id, at := pick.Draw(t, "id"), instants().Draw(t, "at")
			w.Schedule(&timers[id], at)
			m.schedule(id, at)
		},
		"cancel": func(t *rapid.T) {
			id := pick.Draw(t, "id")
			w.Cancel(&timers[id])
			m.cancel(id)
		},
		"pop, and meddle": func(t *rapid.T) {
			now := instants().Draw(t, "now") // forward or back
			for i := rapid.IntRange(1, 20).Draw(t, "pops"); i > 0; i-- {
				popped(t, w, m, now)
				if rapid.Bool().Draw(t, "meddle") {
					id, at := pick.Draw(t, "id"), instants().Draw(t, "at")
					w.Schedule(&timers[id], at)
					m.schedule(id, at)
				}
			}
		},
		"": func(t *rapid.T) {
			w.check(t)
			next, ok := w.Next()
			if ok != (len(m.list) > 0) || w.Len() != len(m.list) {
				t.Fatalf("Next says %v, Len %d, held are %d", ok, w.Len(), len(m.list))
			}
			if ok && next > m.list[0].at {
				t.Fatalf("Next = %d, the earliest is at %d", next, m.list[0].at)
			}
		},
	})
}

// popped compares one Pop, and that Next moves on after one in vain.
func popped(t *rapid.T, w *Wheel[int], m *model, now int64) {
	got := w.Pop(now)
	id, ok := m.pop(now)
	switch {
	case ok != (got != nil):
		t.Fatalf("Pop(%d) = %v, the model says %v", now, got, ok)
	case got == nil:
		if next, ok := w.Next(); ok && next <= now {
			t.Fatalf("Pop(%d) found nothing, and Next = %d", now, next)
		}
	case got.Value != id || got.Scheduled() || got.At() > now:
		t.Fatalf("Pop(%d) = %d at %d, scheduled %v; the model says %d", now, got.Value, got.At(), got.Scheduled(), id)
	}
}

func TestAgainstASortedList(t *testing.T) { rapid.Check(t, property) }

func FuzzAgainstASortedList(f *testing.F) { f.Fuzz(rapid.MakeFuzz(property)) }
