package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/actors/execution"
	"github.com/belfry-scheduler/belfry/actors/execution/broker"
	"github.com/belfry-scheduler/belfry/actors/partition"
	"github.com/belfry-scheduler/belfry/actors/queue"
	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/clock"
	"github.com/belfry-scheduler/belfry/gateway"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cql"
	"github.com/belfry-scheduler/belfry/persistence/embedded"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Node is a running process of Belfry.
type Node struct {
	cfg      Config
	log      *slog.Logger
	store    persistence.Store // nil until it is open
	system   *actor.ActorSystem
	registry *prometheus.Registry
	self     cluster.Member
	routes   *cluster.Routes
	process  *cluster.Process // nil: in no cluster
	beater   *cluster.Beater  // nil: alone on the store
	props    *actors.Factory
	target   *execution.Target
	brokers  *broker.Set
	gateway  *gateway.Gateway
	relay    *relay
	now      func() time.Time // the wall clock by which this node acts
	server   *http.Server
	listener net.Listener
	worker   *actor.PID // nil: not of its roles
	host     *actor.PID // nil: not of its roles
	queues   *queue.Client
	desk     *actor.PID // of the brokers of queues; nil: not of its roles

	storeID   uuid.UUID          // of the cluster in the store
	strangers map[uuid.UUID]bool // processes of other stores that were told of
	format    atomic.Int64       // of stored messages, as the cluster writes them
	clockSkew prometheus.Gauge
	clockOff  atomic.Bool
	compared  chan struct{}                   // closed when its clock was compared with the others'
	begun     atomic.Bool                     // it does its parts
	givingUp  atomic.Bool                     // its partitions, to whoever can take them
	last      atomic.Bool                     // also if nobody can: everything has ended
	api       atomic.Pointer[gateway.Gateway] // to publish to
	asked     chan struct{}
	askedOnce sync.Once
	settled   atomic.Bool // every partition has been known to have an owner
	ended     chan struct{}
	endedOnce sync.Once

	stopping    atomic.Bool
	failed      chan error
	waiting     atomic.Pointer[string]       // what the node waits for before it can serve
	handler     atomic.Pointer[http.Handler] // of the API, once there is a store
	stopOpening context.CancelFunc           // nil when nothing is waited for
	opened      chan struct{}                // closed when the store is open, or never will be
}

// Start starts a node and returns once it listens. On the embedded store it is
// open by then; a database may still be waited for. The node becomes ready when
// every partition is loaded. Whatever was started is stopped again on an error.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger.With("node", cfg.NodeName), failed: make(chan error, 1), opened: make(chan struct{}),
		asked: make(chan struct{}), ended: make(chan struct{}), compared: make(chan struct{}), now: clock.Now,
		self: cluster.Member{Node: cfg.NodeName, Incarnation: uuid.New(), Started: clock.Now().UnixMilli(), Roles: cfg.Roles, Version: cfg.Version, Format: messages.Format},
	}
	n.wait("the node is starting")
	if err := n.start(ctx); err != nil {
		n.abandon()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	var err error
	if n.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", n.cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w", n.cfg.Listen, err)
	}
	n.registry = prometheus.NewRegistry()
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(n.cfg.Version))
	actorLog := slog.New(library{n.log.Handler()})
	n.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return actorLog }),
		actor.WithDeadLetterThrottleInterval(100*time.Millisecond), // a goroutine waits for its end, also past ours
	)
	n.routes = cluster.NewRoutes(n.system, n.cfg.Partitions)
	n.props = actors.NewFactory(n.system, n.log, actors.NewMetrics(n.registry))
	n.serve()
	if n.cfg.CQL != nil {
		opening, cancel := context.WithCancel(context.Background())
		n.stopOpening = cancel
		go n.openDatabase(opening)
		return nil
	}
	defer close(n.opened)
	st, err := embedded.Open(embedded.Config{Dir: n.cfg.DataDir, Logger: n.log})
	if err != nil {
		return err
	}
	n.store = st
	return n.begin(ctx)
}

// openDatabase waits for the database as long as it takes.
func (n *Node) openDatabase(ctx context.Context) {
	defer close(n.opened)
	cfg := *n.cfg.CQL
	cfg.Retention, cfg.Logger, cfg.Waiting = n.cfg.Retention, n.log, n.wait
	st, err := cql.Open(ctx, cfg)
	if err == nil {
		n.store = st
		err = n.begin(ctx)
	}
	if err != nil && ctx.Err() == nil {
		n.fail(err)
	}
}

func (n *Node) wait(why string) { n.waiting.Store(&why) }

// serve answers from the start: with what the node waits for, until there is a
// gateway.
func (n *Node) serve() {
	waiting := gateway.Waiting(func() string { _, why := n.Ready(); return why }, n.cfg.Version)
	n.server = gateway.NewServer("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := n.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		waiting.ServeHTTP(w, r)
	}))
	go func() {
		if err := n.server.Serve(gateway.LimitConns(n.listener, 0)); !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("serve the API: %w", err))
		}
	}()
}

// begin starts everything that needs the store.
func (n *Node) begin(ctx context.Context) error {
	constants, err := n.store.Cluster(ctx, n.constants())
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	n.storeID, n.strangers = constants.ID, map[uuid.UUID]bool{}
	n.format.Store(int64(constants.Format))
	policy, err := n.policy(ctx)
	if err != nil {
		return err
	}
	if n.cfg.Cluster != nil { // before any actor is made, because their names have its address
		n.wait("the node is joining the cluster")
		if err := n.join(ctx); err != nil {
			return err
		}
	}
	if err := n.startQueues(); err != nil {
		return err
	}
	if err := n.loadBrokers(); err != nil {
		return err
	}
	if n.self.Roles.Has(cluster.Worker) {
		if err := n.startWorker(policy); err != nil {
			return err
		}
	}
	if n.self.Roles.Has(cluster.Scheduler) {
		if err := n.startHost(); err != nil {
			return err
		}
	}
	if n.process != nil {
		if err := n.compareClock(ctx); err != nil {
			return err
		}
	}
	if err := n.startGateway(policy, constants.ID); err != nil {
		return err
	}
	n.takePart()
	n.waiting.Store(nil)
	return nil
}

// loadBrokers reads which brokers jobs may publish to.
func (n *Node) loadBrokers() error {
	if n.cfg.BrokersFile == "" {
		return nil
	}
	configs, err := broker.Load(n.cfg.BrokersFile)
	if err == nil {
		n.brokers = broker.NewSet(configs)
	}
	return err
}

// policy says which addresses jobs may call: never this node's own, nor the
// database's.
func (n *Node) policy(ctx context.Context) (job.AddressPolicy, error) {
	own, err := netip.ParseAddrPort(n.listener.Addr().String())
	if err != nil {
		return job.AddressPolicy{}, fmt.Errorf("own address: %w", err)
	}
	deny, err := execution.OwnAddrs(own)
	if err == nil && n.cfg.CQL != nil {
		var db []netip.AddrPort
		db, err = addresses(ctx, n.cfg.CQL.Hosts)
		deny = append(deny, db...)
	}
	return job.AddressPolicy{Allow: n.cfg.AllowTargets, AllowPlainHTTP: n.cfg.AllowPlainHTTP, Deny: deny}, err
}

// defaultCQLPort is where a database listens when its host names no port.
const defaultCQLPort = "9042"

// addresses are what hosts of the database mean to this machine.
func addresses(ctx context.Context, hosts []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, h := range hosts {
		name, port, err := net.SplitHostPort(h)
		if err != nil {
			name, port = h, defaultCQLPort
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("database host %q: port: %w", h, err)
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			return nil, fmt.Errorf("database host %q: %w", h, err)
		}
		for _, ip := range ips {
			out = append(out, netip.AddrPortFrom(ip.Unmap(), uint16(number)))
		}
	}
	return out, nil
}

// startGateway serves the API. A node that is no gateway serves only what tells
// of the node itself.
func (n *Node) startGateway(policy job.AddressPolicy, id uuid.UUID) error {
	var err error
	n.gateway, err = gateway.New(gateway.Config{
		Owners: n.routes, Queues: n.queues, Store: n.store, Policy: policy, Now: n.now, Ready: n.Ready, Cluster: view{n}, NodeOnly: !n.self.Roles.Has(cluster.Gateway), Remember: n.beater != nil,
		Brokers: n.brokers.Kinds(), Registry: n.registry, Version: n.cfg.Version, Logger: n.log, TokenKey: id[:],
	})
	if err != nil {
		return err
	}
	n.api.Store(n.gateway)
	h := n.gateway.Handler()
	n.handler.Store(&h)
	return nil
}

// startQueues starts what brings outside workers and owners together.
func (n *Node) startQueues() error {
	cfg := queue.Config{System: n.system, Owners: n.routes}
	if n.process != nil {
		cfg.Members = func() []cluster.Member { return n.process.Members.View().Members }
	}
	n.queues = queue.NewClient(cfg)
	if !n.self.Roles.Has(cluster.Scheduler) && !n.self.Roles.Has(cluster.Gateway) {
		return nil
	}
	var err error
	n.desk, err = queue.StartDesk(n.props, n.log)
	return err
}

func (n *Node) startWorker(policy job.AddressPolicy) error {
	vault := &execution.Vault{Dir: n.cfg.SecretsDir}
	n.target = execution.NewTarget(execution.TargetConfig{
		Guard: execution.NewGuard(policy, nil), Slots: n.cfg.Slots, UserAgent: "Belfry/" + n.cfg.Version,
		Vault: vault,
	})
	cfg := execution.DefaultConfig()
	cfg.Node, cfg.Slots, cfg.Owner, cfg.Deliverer = n.cfg.NodeName, n.cfg.Slots, n.routes.Owner, n.target
	cfg.Limits, cfg.Publish = n.cfg.Limits, n.publish
	cfg.Brokers = execution.NewPublisher(execution.PublisherConfig{Brokers: n.brokers, Vault: vault})
	cfg.Metrics, cfg.Log = execution.NewMetrics(n.registry), n.cfg.Logger
	if n.process != nil {
		cfg.Perform = n.process.Services.Perform
	}
	if n.beater != nil {
		cfg.TTL, cfg.Lease = n.cfg.Cluster.TTL, func() func() bool { return n.beater.Lease().Valid }
	}
	cfg.Stopped = func(reason any) { n.fail(fmt.Errorf("the worker panicked too often: %v", reason)) }
	props, err := execution.NewWorker(n.props, cfg)
	if err != nil {
		return err
	}
	// A restarted process must not be taken for the one before.
	n.worker, err = n.system.Root.SpawnNamed(props, "worker-"+n.self.Incarnation.String())
	return err
}

func (n *Node) startHost() error {
	state := partition.DefaultConfig()
	state.Node, state.Retention, state.Hosts = n.cfg.NodeName, n.cfg.Retention, n.cfg.Limits.Hosts
	cfg := partition.HostConfig{
		Shell:  partition.Shell{Store: n.store, Now: n.now, Publish: n.publish, Hint: n.queues.Hint, Metrics: partition.NewMetrics(n.registry), Log: n.log},
		State:  state,
		Owner:  n.self.Owner(),
		Routes: n.routes,
		Props:  n.props,
		Worker: n.worker,
		Peers:  n.peers,
		Format: func() int { return int(n.format.Load()) },
		Failed: n.fail,
	}
	if n.beater != nil {
		cfg.Beats, cfg.Beater, cfg.Settings = n.store.(persistence.Beats), n.beater, n.cfg.Cluster.settings()
		cfg.State.AdoptFor = n.cfg.Cluster.TTL
	}
	host := partition.NewHost(cfg)
	n.registry.MustRegister(host)
	var err error
	props := n.props.Props(actors.Host, func() actor.Actor { return host },
		n.props.Supervises(actors.Partition, nil),
		n.props.Guardian(actors.Host, func(_ *actor.PID, reason any) { n.fail(fmt.Errorf("the host of partitions panicked: %v", reason)) }))
	n.host, err = n.system.Root.SpawnNamed(props, partition.HostName)
	return err
}

func (n *Node) publish(e *belfryv1.Event) {
	if g := n.api.Load(); g != nil {
		g.Publish(e)
	}
	if n.process != nil {
		n.relay.put(e)
	}
	if n.cfg.OnEvent != nil {
		n.cfg.OnEvent(e)
	}
}

func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "belfry", Name: "build_info", Help: "The version, as a label; the value is 1."}, []string{"version"})
	g.WithLabelValues(version).Set(1)
	return g
}

// Ready says whether the node takes requests, and if not why not.
func (n *Node) Ready() (bool, string) {
	if n.stopping.Load() {
		return false, "the node is stopping"
	}
	if why := n.waiting.Load(); why != nil {
		return false, *why
	}
	if err := n.store.Healthy(); err != nil {
		return false, err.Error()
	}
	if n.clockOff.Load() {
		return false, "this node's clock is wrong: compare it with those of the other nodes, and set it right"
	}
	if have, all := n.routes.Ready(), n.routes.Partitions(); have < all && !n.settled.Load() {
		return false, fmt.Sprintf("loading: %d of %d partitions are ready", have, all)
	}
	n.settled.Store(true) // from here on a partition without an owner is soon taken, and requests wait for that
	return true, ""
}

// URL is where the API is reached from this machine.
func (n *Node) URL() string { return "http://" + n.listener.Addr().String() }

// Failed yields the error after which the node is of no use; stop it then.
func (n *Node) Failed() <-chan error { return n.failed }

func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// Stop drains the node and closes the store. Where other nodes can take over
// they get the partitions first, and the API is served until then. When ctx
// ends first, calls that still run are cut, and their attempts are recorded as
// unknown by whoever owns them next. It is called once.
func (n *Node) Stop(ctx context.Context) error {
	n.stopping.Store(true)
	if n.stopOpening != nil {
		n.stopOpening()
	}
	<-n.opened
	if n.process != nil {
		n.process.Presence.Announce()
	}
	var errs []error
	if n.shared() {
		errs = append(errs, n.giveUp(ctx))
		n.awaitOwners(ctx)
	}
	if n.gateway != nil {
		n.gateway.Close()
	}
	if err := n.server.Shutdown(ctx); err != nil {
		errs = append(errs, fmt.Errorf("end the API: %w", err), n.server.Close())
	}
	if n.worker != nil {
		errs = append(errs, n.drain(ctx))
	}
	if n.beater != nil {
		n.last.Store(true)
		errs = append(errs, n.giveUp(ctx)) // so that whoever starts next need not wait
	}
	errs = append(errs, n.stopActors(ctx))
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// giveUp hands all partitions over, or releases them.
func (n *Node) giveUp(ctx context.Context) error {
	if n.host == nil || !n.begun.Load() {
		return nil
	}
	n.givingUp.Store(true)
	n.look()
	const most = 30 * time.Second
	wait := most
	if until, ok := ctx.Deadline(); ok {
		wait = max(min(wait, time.Until(until)), 0)
	}
	if _, err := n.system.Root.RequestFuture(n.host, partition.Drain{}, wait).Result(); err != nil {
		return fmt.Errorf("give the partitions up: %w", err)
	}
	return nil
}

// awaitOwners waits until others are known to own what this node had, for a
// moment at most. A new owner asks every worker what it has, before it says that
// it is one: by then the worker here has been asked, and while it does not answer
// what is due waits until it is known to be gone.
func (n *Node) awaitOwners(ctx context.Context) {
	const most = time.Second
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for changed := n.routes.Changed(); n.routes.Ready() < n.routes.Partitions(); changed = n.routes.Changed() {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// drain lets running calls end.
func (n *Node) drain(ctx context.Context) error {
	timeout := n.cfg.DrainTimeout
	if at, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(at), 0))
	}
	left, err := execution.Drain(n.system, n.worker, timeout)
	if left > 0 {
		n.log.Warn("deliveries are left for the next start", "left", left)
	}
	return err
}

// stopActors ends the owners, then the worker, which must not send to nobody,
// and then gives the others notice.
func (n *Node) stopActors(ctx context.Context) error {
	n.endedOnce.Do(func() { close(n.ended) })
	var errs []error
	for _, pid := range []*actor.PID{n.host, n.worker, n.desk} {
		if pid == nil {
			continue
		}
		if err := n.system.Root.StopFuture(pid).Wait(); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", pid.GetId(), err))
		}
	}
	if n.target != nil {
		n.target.Close()
	}
	n.brokers.Close()
	errs = append(errs, n.leave(ctx))
	n.system.Shutdown()
	return errors.Join(errs...)
}

// abandon ends what a failed start had begun.
func (n *Node) abandon() {
	if n.gateway != nil {
		n.gateway.Close()
	}
	switch {
	case n.server != nil:
		_ = n.server.Close()
	case n.listener != nil:
		_ = n.listener.Close()
	}
	if n.system != nil {
		_ = n.stopActors(context.Background())
	}
	if n.store != nil {
		_ = n.store.Close()
	}
}
