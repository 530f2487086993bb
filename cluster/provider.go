package cluster

import (
	"maps"
	"slices"
	"sync"

	pa "github.com/asynkron/protoactor-go/cluster"

	"github.com/belfry-scheduler/belfry/persistence"
)

// provider tells protoactor's cluster of the members that gossip sees.
//
// protoactor blocks a member that has left for ever, by its id. One that was
// paused, or cut off, leaves and comes back; so an id is the incarnation and a
// number that grows with each join that this process sees.
type provider struct {
	views chan *View // holds the newest one that is not applied yet
	stop  chan struct{}
	once  sync.Once
}

var _ pa.ClusterProvider = (*provider)(nil)

func newProvider() *provider {
	return &provider{views: make(chan *View, 1), stop: make(chan struct{})}
}

// viewed takes a view and returns at once: protoactor calls every subscriber of
// a change while it holds its lock.
func (p *provider) viewed(v *View) {
	for {
		select {
		case p.views <- v:
			return
		default:
		}
		select {
		case <-p.views:
		default:
		}
	}
}

// StartMember implements pa.ClusterProvider.
func (p *provider) StartMember(c *pa.Cluster) error {
	go p.apply(c.MemberList.UpdateClusterTopology)
	return nil
}

// StartClient implements pa.ClusterProvider.
func (p *provider) StartClient(c *pa.Cluster) error { return p.StartMember(c) }

// Shutdown implements pa.ClusterProvider.
func (p *provider) Shutdown(bool) error {
	p.once.Do(func() { close(p.stop) })
	return nil
}

func (p *provider) apply(update func(pa.Members)) {
	a := arrivals{at: map[persistence.Owner]int{}}
	for {
		select {
		case v := <-p.views:
			update(a.topology(v))
		case <-p.stop:
			return
		}
	}
}

// arrivals numbers the joins of members.
type arrivals struct {
	last int
	at   map[persistence.Owner]int // of those who are there
}

// topology is a view in protoactor's form.
func (a *arrivals) topology(v *View) pa.Members {
	out := make(pa.Members, 0, len(v.Members))
	for _, m := range v.Members {
		if a.at[m.Owner()] == 0 {
			a.last++
			a.at[m.Owner()] = a.last
		}
		host, port, err := splitHostPort(m.Address)
		if err != nil {
			continue // it has no actors that anybody could reach
		}
		out = append(out, &pa.Member{Id: memberID(m, a.at[m.Owner()]), Host: host, Port: port, Kinds: slices.Clone(m.Kinds)})
	}
	maps.DeleteFunc(a.at, func(o persistence.Owner, _ int) bool {
		_, here := v.Find(o)
		return !here
	})
	return out
}
