package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	pa "github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// The kinds of protoactor's cluster that lead to owners. Every other kind leads
// to the members that host it.
const (
	PartitionKind = "partition" // the identity is the number of a partition
	JobKind       = "job"       // the identity is the id of a job
)

// Protoactor is protoactor's cluster over what this package knows: its Request
// reaches the owner of a partition or of a job, or the actor of an identity, by
// the same code as Routes.Ask and Services.Ask.
//
// Of protoactor's own parts none is started: its gossip blocks healthy members
// for ever after a pause, and its StartMember and Shutdown wait for seconds and
// panic. Members, routing and shutdown are ours.
type Protoactor struct {
	*pa.Cluster
	provider *provider
}

// NewProtoactor makes the cluster of a process whose remote transport runs.
// There is one for each actor system.
func NewProtoactor(system *actor.ActorSystem, transport *remote.Remote, routes *Routes, services *Services) (*Protoactor, error) {
	p, l := newProvider(), &identityLookup{routes, services}
	c := pa.New(system, pa.Configure("belfry", p, l, nil,
		pa.WithClusterContextProducer(func(c *pa.Cluster) pa.Context { return &requester{c, l} }),
		pa.WithRequestTimeout(defaultAsk), pa.WithHeartbeatExpiration(math.MaxInt64)))
	c.Config.GossipInterval = 24 * time.Hour // should anybody start it
	c.Remote, c.IdentityLookup = transport, l
	l.Setup(c, nil, false)
	return &Protoactor{Cluster: c, provider: p}, p.StartMember(c)
}

// Viewed tells it the newest view.
func (p *Protoactor) Viewed(v *View) { p.provider.viewed(v) }

// Close ends what it runs. It takes the place of Shutdown, which stops the actor
// system, waits, and panics.
func (p *Protoactor) Close() { _ = p.provider.Shutdown(true) }

func memberID(m Member, arrival int) string {
	return m.Incarnation.String() + "#" + strconv.Itoa(arrival)
}

func splitHostPort(address string) (string, int32, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	return host, int32(port), err
}

// identityLookup finds the actor behind a kind and an identity.
type identityLookup struct {
	routes   *Routes
	services *Services
}

var _ pa.IdentityLookup = (*identityLookup)(nil)

// Get implements pa.IdentityLookup; nil: nobody is known.
func (l *identityLookup) Get(ci *pa.ClusterIdentity) *actor.PID {
	partition, routed, err := l.partition(ci.GetKind(), ci.GetIdentity())
	switch {
	case err != nil:
		return nil
	case routed:
		return l.routes.Owner(partition)
	}
	pid, err := l.services.Find(context.Background(), ci.GetKind(), ci.GetIdentity())
	if err != nil {
		return nil
	}
	return pid
}

// partition is the one that a kind and an identity mean, if they mean one.
func (l *identityLookup) partition(kind, identity string) (p int32, ok bool, err error) {
	switch kind {
	case PartitionKind:
		n, err := strconv.ParseInt(identity, 10, 32)
		return int32(n), true, err
	case JobKind:
		if l.routes.Partitions() == 0 {
			return 0, true, errNobody
		}
		return job.PartitionOf(identity, l.routes.Partitions()), true, nil
	}
	return 0, false, nil
}

// RemovePid implements pa.IdentityLookup. Nothing is kept that has to be
// removed: routes change by presences and refusals.
func (l *identityLookup) RemovePid(*pa.ClusterIdentity, *actor.PID) {}

// Setup implements pa.IdentityLookup.
func (l *identityLookup) Setup(*pa.Cluster, []string, bool) {}

// Shutdown implements pa.IdentityLookup.
func (l *identityLookup) Shutdown() {}

// requester is protoactor's cluster context. Its own one retries three times
// within a microsecond, and shares the options of one call with all others.
type requester struct {
	cluster *pa.Cluster
	lookup  *identityLookup
}

var _ pa.Context = (*requester)(nil)

// Request implements pa.Context. Of the options only the timeout counts.
func (r *requester) Request(identity, kind string, message any, opts ...pa.GrainCallOption) (any, error) {
	cfg := pa.NewGrainCallOptions(r.cluster)
	for _, o := range opts {
		o(cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	defer cancel()
	msg, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("request to %s %q: %T is no protobuf message", kind, identity, message)
	}
	answer, err := r.ask(ctx, identity, kind, msg)
	if err != nil {
		return nil, err // not a nil proto.Message in an any
	}
	return answer, nil
}

func (r *requester) ask(ctx context.Context, identity, kind string, msg proto.Message) (proto.Message, error) {
	switch kind {
	case JobKind:
		return r.lookup.routes.AskJob(ctx, identity, msg)
	case PartitionKind:
		partition, _, err := r.lookup.partition(kind, identity)
		if err != nil {
			return nil, fmt.Errorf("request to partition %q: %w", identity, err)
		}
		return r.lookup.routes.Ask(ctx, partition, msg)
	}
	return r.lookup.services.Ask(ctx, kind, identity, msg)
}

// errFutures: a future's only sense is not to wait, and whoever must not wait
// is an actor, which asks in a goroutine and sends itself the answer.
var errFutures = errors.New("RequestFuture is not to be had: call Request in a goroutine")

// RequestFuture implements pa.Context.
func (r *requester) RequestFuture(string, string, any, ...pa.GrainCallOption) (*actor.Future, error) {
	return nil, errFutures
}
