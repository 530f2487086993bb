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
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/actors/execution"
	"github.com/belfry-scheduler/belfry/actors/partition"
	"github.com/belfry-scheduler/belfry/cluster"
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
	owners   *cluster.Owners
	props    *actors.Factory
	target   *execution.Target
	gateway  *gateway.Gateway
	server   *http.Server
	listener net.Listener
	worker   *actor.PID
	host     *actor.PID

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
	n := &Node{cfg: cfg, log: cfg.Logger.With("node", cfg.NodeName), failed: make(chan error, 1), opened: make(chan struct{})}
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
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return n.log }))
	n.owners = cluster.NewOwners(n.system, n.cfg.Partitions)
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
	constants, err := n.store.Cluster(ctx, persistence.Cluster{Partitions: n.cfg.Partitions, Hash: job.HashName, Format: messages.Format})
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	policy, err := n.policy(ctx)
	if err != nil {
		return err
	}
	if err := n.startGateway(policy, constants.ID); err != nil {
		return err
	}
	if err := n.startWorker(policy); err != nil {
		return err
	}
	if err := n.startHost(); err != nil {
		return err
	}
	h := n.gateway.Handler()
	n.handler.Store(&h)
	n.waiting.Store(nil)
	return nil
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

func (n *Node) startGateway(policy job.AddressPolicy, cluster uuid.UUID) error {
	var err error
	n.gateway, err = gateway.New(gateway.Config{
		Owners: n.owners, Store: n.store, Policy: policy, Ready: n.Ready,
		Registry: n.registry, Version: n.cfg.Version, Logger: n.log, TokenKey: cluster[:],
	})
	return err
}

func (n *Node) startWorker(policy job.AddressPolicy) error {
	n.target = execution.NewTarget(execution.TargetConfig{
		Guard: execution.NewGuard(policy, nil), Slots: n.cfg.Slots, UserAgent: "Belfry/" + n.cfg.Version,
	})
	cfg := execution.DefaultConfig()
	cfg.Node, cfg.Slots, cfg.Owner, cfg.Deliverer = n.cfg.NodeName, n.cfg.Slots, n.owners.Owner, n.target
	cfg.Metrics, cfg.Log = execution.NewMetrics(n.registry), n.cfg.Logger
	cfg.Stopped = func(reason any) { n.fail(fmt.Errorf("the worker panicked too often: %v", reason)) }
	props, err := execution.NewWorker(n.props, cfg)
	if err != nil {
		return err
	}
	n.worker, err = n.system.Root.SpawnNamed(props, "worker")
	return err
}

func (n *Node) startHost() error {
	state := partition.DefaultConfig()
	state.Node, state.Retention = n.cfg.NodeName, n.cfg.Retention
	host := partition.NewHost(partition.HostConfig{
		Shell: partition.Shell{
			Store: n.store, Worker: func() *actor.PID { return n.worker }, Publish: n.publish, Fenced: n.fenced,
			Metrics: partition.NewMetrics(n.registry), Log: n.log,
		},
		State:  state,
		Owner:  persistence.Owner{Node: n.cfg.NodeName, Incarnation: uuid.New()},
		Owners: n.owners,
		Props:  n.props,
	})
	n.registry.MustRegister(host)
	var err error
	props := n.props.Props(actors.Host, func() actor.Actor { return host },
		n.props.Supervises(actors.Partition, nil),
		n.props.Guardian(actors.Host, func(_ *actor.PID, reason any) { n.fail(fmt.Errorf("the host of partitions panicked: %v", reason)) }))
	n.host, err = n.system.Root.SpawnNamed(props, "host")
	return err
}

// fenced ends the node when another process owns a partition: this version runs
// one server on a store, and two would only take partitions from each other.
func (n *Node) fenced(holder persistence.Fence) {
	n.fail(fmt.Errorf("another belfry server, %q, has taken partition %d: this version runs one server on a store", holder.Owner, holder.Partition))
}

func (n *Node) publish(e *belfryv1.Event) {
	n.gateway.Publish(e)
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
	if have, all := n.owners.Ready(), n.owners.Partitions(); have < all {
		return false, fmt.Sprintf("loading: %d of %d partitions are ready", have, all)
	}
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

// Stop drains the node and closes the store. When ctx ends first, calls that
// still run are cut, and their attempts are recorded as unknown by the next
// start. It is called once.
func (n *Node) Stop(ctx context.Context) error {
	n.stopping.Store(true)
	if n.stopOpening != nil {
		n.stopOpening()
	}
	<-n.opened
	if n.gateway != nil {
		n.gateway.Close()
	}
	var errs []error
	if err := n.server.Shutdown(ctx); err != nil {
		errs = append(errs, fmt.Errorf("end the API: %w", err), n.server.Close())
	}
	if n.worker != nil {
		errs = append(errs, n.drain(ctx))
	}
	errs = append(errs, n.stopActors())
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
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

// stopActors ends the owners, then the worker, which must not send to nobody.
func (n *Node) stopActors() error {
	var errs []error
	for _, pid := range []*actor.PID{n.host, n.worker} {
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
		_ = n.stopActors()
	}
	if n.store != nil {
		_ = n.store.Close()
	}
}
