package cql

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"
)

// detourFor is how long a node that left a request without a clear answer is
// asked last.
const detourFor = 5 * time.Second

// detour is a host policy that asks nodes last which did not answer lately, so
// that the barrier behind a commit in doubt goes through another node, and so
// does whatever follows.
type detour struct {
	gocql.HostSelectionPolicy

	mu   sync.Mutex
	late map[string]time.Time // host id: until when it is asked last
}

func newDetour(inner gocql.HostSelectionPolicy) *detour {
	return &detour{HostSelectionPolicy: inner, late: map[string]time.Time{}}
}

// AddHosts passes all nodes on at once, as the driver does to policies that it
// knows.
func (d *detour) AddHosts(hosts []*gocql.HostInfo) {
	if bulk, ok := d.HostSelectionPolicy.(interface{ AddHosts([]*gocql.HostInfo) }); ok {
		bulk.AddHosts(hosts)
		return
	}
	for _, h := range hosts {
		d.AddHost(h)
	}
}

// Pick is the inner policy's order with the late nodes moved to the end.
func (d *detour) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	t, _ := q.Context().Value(trailKey{}).(*trail)
	return t.follow(d.order(d.HostSelectionPolicy.Pick(q)))
}

func (d *detour) order(next gocql.NextHost) gocql.NextHost {
	var last []gocql.SelectedHost
	return func() gocql.SelectedHost {
		for h := next(); h != nil; h = next() {
			if info := h.Info(); info == nil || !d.isLate(info.HostID()) {
				return h
			}
			last = append(last, h)
		}
		if len(last) == 0 {
			return nil
		}
		h := last[0]
		last = last[1:]
		return h
	}
}

func (d *detour) isLate(host string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.late[host]
	if ok && time.Now().After(until) {
		delete(d.late, host)
		return false
	}
	return ok
}

// ObserveQuery is called by the driver after each request.
func (d *detour) ObserveQuery(_ context.Context, q gocql.ObservedQuery) { d.observe(q.Host, q.Err) }

// ObserveBatch is called by the driver after each batch.
func (d *detour) ObserveBatch(_ context.Context, b gocql.ObservedBatch) { d.observe(b.Host, b.Err) }

func (d *detour) observe(host *gocql.HostInfo, err error) {
	if host == nil || err == nil || !silent(err) {
		return
	}
	d.avoid(host)
}

// avoid has a node asked last from now on, for a while.
func (d *detour) avoid(host *gocql.HostInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late[host.HostID()] = time.Now().Add(detourFor)
}

// silent tells whether an error means that a node, or its connection, did not
// get to an answer.
func silent(err error) bool {
	var timeout *gocql.RequestErrWriteTimeout
	var unknown *gocql.RequestErrCASWriteUnknown
	var read *gocql.RequestErrReadTimeout
	var refusal gocql.RequestError
	switch {
	case errors.As(err, &timeout), errors.As(err, &unknown), errors.As(err, &read):
		return true
	case errors.As(err, &refusal), errors.Is(err, context.Canceled):
		return false
	}
	return true
}

// trail remembers which node a request has gone to, so that it can be called
// late while the request is still under way.
type trail struct {
	d    *detour
	host atomic.Pointer[gocql.HostInfo]
}

type trailKey struct{}

// trail is a context whose request leaves one.
func (d *detour) trail(ctx context.Context) (context.Context, *trail) {
	t := &trail{d: d}
	return context.WithValue(ctx, trailKey{}, t), t
}

// follow notes the hosts that a request is given; a nil trail notes nothing.
func (t *trail) follow(next gocql.NextHost) gocql.NextHost {
	if t == nil {
		return next
	}
	return func() gocql.SelectedHost {
		h := next()
		if h != nil {
			t.host.Store(h.Info())
		}
		return h
	}
}

// late is called when the request has been unanswered for too long; a nil trail
// is of no request.
func (t *trail) late() {
	if t == nil {
		return
	}
	if host := t.host.Load(); host != nil {
		t.d.avoid(host)
	}
}
