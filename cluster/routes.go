package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Routes knows, on this process, which actor owns each partition: here, as the
// host says, or elsewhere, as presences say. Of two that claim a partition the
// one with the higher epoch counts. It is a hint: the fence decides.
//
// Reading takes no lock, so that Owner may be asked for every delivery.
type Routes struct {
	calls *calls
	table atomic.Pointer[[]atomic.Pointer[route]] // nil until the number of partitions is known; the last is the system partition's
	known chan struct{}                           // closed when it is
	ready atomic.Int32

	mu      sync.Mutex
	own     map[int32]*route
	said    map[persistence.Owner]*claimed
	changed chan struct{} // closed at the next change of the table
	onOwn   func()
}

// route is who owns a partition. It is not changed once made.
type route struct {
	pid   *actor.PID // nil: nobody is known
	node  string     // "": this process
	epoch int64
	over  chan struct{} // closed when the table has another
}

// local tells whether the owner runs in this process, so that no message to it
// is lost without a trace.
func (r *route) local() bool { return r.node == "" }

// same tells whether both lead to one owner.
func (r *route) same(other *route) bool {
	if r.pid == nil || other.pid == nil {
		return r.pid == other.pid
	}
	return r.epoch == other.epoch && r.node == other.node && r.pid.Equal(other.pid)
}

// claimed is what one member said that it owns.
type claimed struct {
	member  Member
	epochs  map[int32]int64
	refused map[int32]int64 // epochs that it gave up since, whatever an older presence says
}

// NewRoutes makes the table of a cluster with n partitions, all without an
// owner. 0: the number is learned from the first presence that says it.
func NewRoutes(system *actor.ActorSystem, n int) *Routes {
	r := &Routes{
		calls: newCalls(system, maxUnanswered), known: make(chan struct{}), changed: make(chan struct{}),
		own: map[int32]*route{}, said: map[persistence.Owner]*claimed{}, onOwn: func() {},
	}
	if n > 0 {
		r.learn(n)
	}
	return r
}

// learn sets the number of partitions, once.
func (r *Routes) learn(n int) {
	if r.table.Load() != nil || n <= 0 || n > job.MaxPartitions {
		return
	}
	table := make([]atomic.Pointer[route], n+1)
	for i := range table {
		table[i].Store(&route{over: make(chan struct{})})
	}
	r.table.Store(&table)
	close(r.known)
}

// Partitions is the number of partitions of the cluster; 0: not known yet.
func (r *Routes) Partitions() int {
	if table := r.table.Load(); table != nil {
		return len(*table) - 1
	}
	return 0
}

// cell is the place of a partition in the table; nil when there is no such
// partition, or their number is not known.
func (r *Routes) cell(partition int32) *atomic.Pointer[route] {
	table, n := r.table.Load(), int32(r.Partitions())
	switch {
	case table == nil || partition < job.SystemPartition || partition >= n:
		return nil
	case partition == job.SystemPartition:
		return &(*table)[n]
	}
	return &(*table)[partition]
}

// at is the route to a partition; nil when there is no such partition, or their
// number is not known.
func (r *Routes) at(partition int32) *route {
	if cell := r.cell(partition); cell != nil {
		return cell.Load()
	}
	return nil
}

// Owner is the actor that owns a partition; nil when none is known.
func (r *Routes) Owner(partition int32) *actor.PID {
	if at := r.at(partition); at != nil {
		return at.pid
	}
	return nil
}

// Ready is how many partitions of jobs have a known owner.
func (r *Routes) Ready() int { return int(r.ready.Load()) }

// Changed is closed at the next change of any route.
func (r *Routes) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// OnOwn sets what is called, without a lock, after this process has begun or
// ceased to own a partition. It must be quick, and is set before there are any.
func (r *Routes) OnOwn(f func()) { r.onOwn = f }

// Own says that an actor of this process owns a partition under an epoch.
func (r *Routes) Own(partition int32, epoch int64, pid *actor.PID) {
	r.mu.Lock()
	r.own[partition] = &route{pid: pid, epoch: epoch}
	r.choose(partition)
	r.mu.Unlock()
	r.onOwn()
}

// Disown says that this process no longer owns a partition under an epoch.
func (r *Routes) Disown(partition int32, epoch int64) {
	r.mu.Lock()
	own, ok := r.own[partition]
	ok = ok && own.epoch == epoch
	if ok {
		delete(r.own, partition)
		r.choose(partition)
	}
	r.mu.Unlock()
	if ok {
		r.onOwn()
	}
}

// Owned is what this process owns, by partition.
func (r *Routes) Owned() []*belfryv1.Owned {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*belfryv1.Owned, 0, len(r.own))
	for _, p := range slices.Sorted(maps.Keys(r.own)) {
		out = append(out, &belfryv1.Owned{Partition: p, Epoch: r.own[p].epoch})
	}
	return out
}

// Heard takes what a member says that it owns in place of what it had said.
func (r *Routes) Heard(m Member, p *belfryv1.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(int(p.GetPartitions()))
	was := r.said[m.Owner()]
	if was == nil {
		was = &claimed{refused: map[int32]int64{}}
	}
	now := &claimed{member: m, epochs: make(map[int32]int64, len(p.GetOwned())), refused: was.refused}
	for _, o := range p.GetOwned() {
		if e := o.GetEpoch(); e > now.refused[o.GetPartition()] {
			now.epochs[o.GetPartition()] = e
		}
	}
	r.said[m.Owner()] = now
	for partition, epoch := range now.epochs {
		if was.epochs[partition] != epoch || was.member.Address != m.Address {
			r.choose(partition)
		}
	}
	for partition := range was.epochs {
		if _, still := now.epochs[partition]; !still {
			r.choose(partition)
		}
	}
}

// Viewed forgets members that are no longer seen.
func (r *Routes) Viewed(v *View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, was := range r.said {
		if _, here := v.Find(owner); here {
			continue
		}
		delete(r.said, owner)
		for partition := range was.epochs {
			r.choose(partition)
		}
	}
}

// Refused says that whoever owned a partition under an epoch answered NotOwner:
// it never owns it under that epoch again.
func (r *Routes) Refused(partition int32, epoch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.own[partition]; ok && own.epoch == epoch {
		delete(r.own, partition)
	}
	for _, c := range r.said {
		if c.epochs[partition] == epoch {
			delete(c.epochs, partition)
			c.refused[partition] = epoch
		}
	}
	r.choose(partition)
}

// choose puts the best claim of a partition into the table. The lock is held.
func (r *Routes) choose(partition int32) {
	cell := r.cell(partition)
	if cell == nil {
		return
	}
	best := r.best(partition)
	was := cell.Load()
	if best.same(was) {
		return
	}
	cell.Store(best)
	close(was.over)
	if was.pid != nil && partition != job.SystemPartition {
		r.ready.Add(-1)
	}
	if best.pid != nil && partition != job.SystemPartition {
		r.ready.Add(1)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// best is a new route for the claim with the highest epoch. No two owners have
// the same one; should they say so, ours counts, then the first by name.
func (r *Routes) best(partition int32) *route {
	out := &route{over: make(chan struct{})}
	if own := r.own[partition]; own != nil {
		out.pid, out.epoch = own.pid, own.epoch
	}
	var from Member
	for _, c := range r.said {
		epoch := c.epochs[partition]
		if epoch > out.epoch || epoch == out.epoch && c.member.Node < out.node {
			from, out.node, out.epoch = c.member, c.member.Node, epoch
		}
	}
	if out.node != "" {
		out.pid = OwnerPID(from.Address, partition, out.epoch)
	}
	return out
}

// OwnerPID names the owner of a partition under an epoch, at an address.
func OwnerPID(address string, partition int32, epoch int64) *actor.PID {
	return actor.NewPID(address, fmt.Sprintf("host/%s", OwnerName(partition, epoch)))
}

// OwnerName is the name of a partition's owner among the children of its host.
// It carries the epoch, so that no message for one owner reaches another.
func OwnerName(partition int32, epoch int64) string {
	return fmt.Sprintf("p%d-e%d", partition, epoch)
}

// Route is who owns a partition, as this process knows it.
type Route struct {
	Partition int32
	Node      string // "": this process
	Epoch     int64
	Owner     *actor.PID // nil: nobody is known
}

// Table is every partition of jobs and who owns it.
func (r *Routes) Table() []Route {
	out := make([]Route, r.Partitions())
	for i := range out {
		at := r.at(int32(i))
		out[i] = Route{Partition: int32(i), Node: at.node, Epoch: at.epoch, Owner: at.pid}
	}
	return out
}
