package bench

import (
	"context"
	"fmt"
	"time"
)

// Failover kills nodes of a cluster while it delivers at a constant rate, and
// restarts others as planned. It measures how long partitions are without an
// owner, and judges everything that was due meanwhile.
//
// A failover counts for each partition of the killed node that something is due
// for: from the kill until the first delivery under a later epoch. A handover's
// pause is how late the first delivery under a later epoch is.
type Failover struct {
	Rate       int // deliveries a second
	Kills      int
	Restarts   int
	Partitions int
	TTL        time.Duration // of the nodes
	Size       int           // bytes of a job
	Patience   time.Duration // without any delivery, after which the rest is missing
	Quiet      time.Duration // after the last delivery
}

// Cluster is nodes of ours, numbered from 0.
type Cluster interface {
	// Len is how many there are.
	Len() int
	// Owned are the partitions of a node.
	Owned(ctx context.Context, node int) (map[int32]bool, error)
	// Kill ends a node at once, Stop as planned.
	Kill(node int)
	Stop(ctx context.Context, node int) error
	// Start starts a node that has ended.
	Start(ctx context.Context, node int) error
	// Settle waits until every partition has an owner, every node that runs has
	// some, and none has moved for a second. It says since when.
	Settle(ctx context.Context) (time.Time, error)
}

// Run measures.
func (f Failover) Run(ctx context.Context, e Env, c Cluster) (Report, error) {
	report := Report{Bench: "failover", Machine: ThisMachine(), Params: Values{
		{"nodes", c.Len()}, {"partitions", f.Partitions}, {"rate", f.Rate}, {"kills", f.Kills}, {"restarts", f.Restarts}, {"ttl", f.TTL.String()}, {"job_bytes", f.Size},
	}}
	if _, err := c.Settle(ctx); err != nil {
		return report, err
	}
	load, err := f.load(ctx, e)
	if err != nil {
		return report, err
	}
	defer e.Sink.owners.Store(nil)
	var failovers, pauses []time.Duration
	for i := range f.Kills + f.Restarts {
		kill, node := i < f.Kills, i%c.Len()
		at, moved, err := f.fault(ctx, c, node, kill)
		if err != nil {
			return report, err
		}
		changes := load.owners.since(at, moved)
		for _, x := range changes {
			if kill {
				failovers = append(failovers, x.at.Sub(at))
			} else {
				pauses = append(pauses, x.late)
			}
		}
		e.Note("fault %d of %d: node %d, %d of %d partitions delivered under another owner", i+1, f.Kills+f.Restarts, node+1, len(changes), len(moved))
	}
	v, err := load.end(ctx, f)
	if err != nil {
		return report, err
	}
	report.verdict(v)
	ttl := milliseconds(f.TTL)
	report.changes("failover", Distribute(failovers), 0.8*ttl, ttl, 1.5*ttl)
	report.changes("handover_pause", Distribute(pauses), 0, 300, 0)
	return report, nil
}

// changes adds percentiles of changes of owners, with goals where there are any.
func (r *Report) changes(name string, d Distribution, p50, p99, longest float64) {
	r.metric(name+"s", float64(d.Len()))
	if d.Len() == 0 {
		return
	}
	for _, m := range []struct {
		name string
		at   float64
		goal float64
	}{{"_p50_ms", 0.5, p50}, {"_p99_ms", 0.99, p99}, {"_max_ms", 1, longest}} {
		if m.goal > 0 {
			r.atMost(name+m.name, milliseconds(d.At(m.at)), m.goal)
		} else {
			r.metric(name+m.name, milliseconds(d.At(m.at)))
		}
	}
}

// fault ends a node, starts it again and waits until the cluster is as before.
// It says when that began, and what the node had.
func (f Failover) fault(ctx context.Context, c Cluster, node int, kill bool) (at time.Time, had map[int32]bool, err error) {
	if had, err = c.Owned(ctx, node); err != nil {
		return at, nil, err
	}
	at = time.Now()
	if kill {
		c.Kill(node)
		err = pause(ctx, 3*f.TTL) // so that others have to take over
	} else {
		err = c.Stop(ctx, node)
	}
	if err == nil {
		err = c.Start(ctx, node)
	}
	if err == nil {
		_, err = c.Settle(ctx)
	}
	return at, had, err
}

// running is a load that is judged up to the moment at which it ends.
type running struct {
	ledger *Ledger
	owners *owners
	last   time.Time // when its last delivery is due
}

// perFault is more than a fault takes, with what comes after it.
const perFault = time.Minute

// load registers jobs that last longer than all faults.
func (f Failover) load(ctx context.Context, e Env) (*running, error) {
	const lead, ahead = 5 * time.Second, 2 * time.Second
	slots := int((time.Duration(f.Kills+f.Restarts+1) * perFault) / time.Second)
	start := time.Now().Add(lead).Truncate(time.Second)
	first := func(i int) time.Time {
		return start.Add((time.Second * time.Duration(i) / time.Duration(f.Rate)).Truncate(time.Millisecond))
	}
	j := Jobs{
		Plan: Plan{Prefix: runID("failover"), Jobs: f.Rate, Slots: slots, Every: time.Second, First: first},
		URL:  e.Sink.URL(), Size: f.Size,
		Schedule: func(int) string { return "@every 1s" },
		Starts:   first,
		Ends:     func(i int) time.Time { return first(i).Add(time.Duration(slots) * time.Second) },
	}
	r := &running{ledger: NewLedger(j.Plan), owners: newOwners(f.Partitions), last: start.Add(time.Duration(slots) * time.Second)}
	e.Sink.Use(r.ledger)
	e.Sink.owners.Store(r.owners)
	if _, err := e.imports(ctx, j, 1); err != nil {
		return nil, err
	}
	if time.Until(start) < 0 {
		return nil, fmt.Errorf("registering %d jobs took longer than %s", f.Rate, lead)
	}
	return r, pause(ctx, time.Until(start)+ahead)
}

// end judges what was due until now, once it has come, or nothing has for a
// while.
func (r *running) end(ctx context.Context, f Failover) (Verdict, error) {
	until := time.Now()
	if until.After(r.last) {
		return Verdict{}, fmt.Errorf("the faults took longer than %s each", perFault)
	}
	const look = 250 * time.Millisecond
	for since := time.Now(); r.ledger.JudgeUntil(time.Second, until).Missing > 0 && time.Since(since) < f.Patience; {
		if err := pause(ctx, look); err != nil {
			return Verdict{}, err
		}
	}
	if err := pause(ctx, f.Quiet); err != nil {
		return Verdict{}, err
	}
	v := r.ledger.JudgeUntil(time.Second, until)
	v.Repeats = true
	return v, nil
}
