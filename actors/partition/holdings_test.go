package partition

import (
	"testing"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestHoldingsComeInParts: only a whole answer counts, whatever came before it.
func TestHoldingsComeInParts(t *testing.T) {
	var h holdings
	part := func(answer int64, parts int32, ids ...string) *belfryv1.Holds {
		m := &belfryv1.Holds{Answer: answer, Parts: parts}
		for _, id := range ids {
			m.Deliveries = append(m.Deliveries, &belfryv1.DeliveryRef{ExecutionId: id, Attempt: 1})
		}
		return m
	}
	for i, c := range []struct {
		m    *belfryv1.Holds
		want string // "": it is not whole
	}{
		{part(0, 0, "x"), "x "}, // of a worker that knows of no parts
		{part(0, 0), " "},
		{part(1, 3, "a"), ""},
		{part(1, 3, "b"), ""},
		{part(1, 3, "c"), "a b c "},
		{part(2, 3, "a", "b"), ""}, // and its second part is lost
		{part(2, 3, "e"), ""},
		{part(3, 2, "d"), ""},
		{part(3, 2, "e"), "d e "},
		{part(4, 1), " "},
	} {
		all, whole := h.take(c.m)
		got := ""
		for _, d := range all {
			got += d.GetExecutionId() + " "
		}
		if whole && got == "" {
			got = " "
		}
		if got != c.want {
			t.Errorf("part %d: got %q, want %q", i, got, c.want)
		}
	}
}
