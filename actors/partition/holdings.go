package partition

import belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"

// holdings puts the parts of a worker's answer to an Inquire together. They come
// in order. When one is lost nothing of that answer is taken: it would say that
// the worker does not hold what it does. The worker is asked again.
type holdings struct {
	answer     int64
	parts      int32 // that came
	deliveries []*belfryv1.DeliveryRef
}

// take adds a part, and returns the whole with the last one.
func (h *holdings) take(m *belfryv1.Holds) (all []*belfryv1.DeliveryRef, whole bool) {
	if m.GetAnswer() != h.answer || h.parts == 0 {
		*h = holdings{answer: m.GetAnswer()}
	}
	h.parts++
	h.deliveries = append(h.deliveries, m.GetDeliveries()...)
	if h.parts < m.GetParts() {
		return nil, false
	}
	all = h.deliveries
	*h = holdings{}
	return all, true
}
