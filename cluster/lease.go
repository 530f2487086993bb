package cluster

// Lease is what a node may rely on since a moment: that others have had to take
// it for alive without a break. A node that was paused beats again as soon as it
// wakes, and is alive; but others may have taken what it owned, and whoever
// looked at that before the pause has to look again.
//
// The zero Lease never lapses: it is that of a process alone on its store.
type Lease struct {
	of     *Beater
	lapses uint64
}

// Lease is the one since now. A nil Beater gives the zero Lease.
func (b *Beater) Lease() Lease {
	if b == nil || b.cfg.Beats == nil {
		return Lease{}
	}
	return Lease{b, b.lapses.Load()}
}

// Valid tells whether it has held until now. It may be called from anywhere and
// costs a reading of the clock.
func (l Lease) Valid() bool {
	return l.of == nil || l.of.Alive() && l.of.lapses.Load() == l.lapses // in this order: a lapse is counted before trust comes back
}

// Since tells whether two leases are one, without a lapse in between.
func (l Lease) Since(earlier Lease) bool { return l == earlier }
