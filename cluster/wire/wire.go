package wire

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// Wire is the connection of an actor system to those of other processes.
type Wire struct {
	system *actor.ActorSystem
	out    *outbox
	server *remote.Remote
}

// Start makes an actor system reachable from other processes, and lets it reach
// them. It is called once a process, before anything else uses gRPC and before
// the system has spawned actors whose PIDs leave the process: they carry the
// address that is set here. A port that is taken is an error.
func Start(system *actor.ActorSystem, cfg Config) (*Wire, error) {
	w, err := prepare(system, cfg)
	if err != nil {
		return nil, err
	}
	if err := listen(w.server); err != nil {
		w.out.close(0)
		return nil, fmt.Errorf("messages between nodes, listen on %s: %w", cfg.Listen, err)
	}
	return w, nil
}

// listen turns the library's panic, for a port that is taken, into an error.
func listen(r *remote.Remote) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	r.Start()
	return nil
}

// prepare does what Start does, except that the server does not listen yet.
func prepare(system *actor.ActorSystem, cfg Config) (*Wire, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	e, err := cfg.check()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of messages between nodes: %w", err)
	}
	in := newInbox(system, cfg, m)
	s, err := newSecrecy(cfg.TLS, cfg.Log, in.refusedHandshake)
	if err != nil {
		return nil, err
	}
	w := &Wire{system: system, out: newOutbox(system, cfg, m, s)}
	if !cfg.off.sending {
		system.ProcessRegistry.RegisterAddressResolver(w.out.resolve)
	}
	w.server = remote.NewRemote(system, remoteConfig(e, cfg, serverOptions(in, cfg, s), w.out.dial))
	return w, nil
}

func newOutbox(system *actor.ActorSystem, cfg Config, m *metrics, s secrecy) *outbox {
	return &outbox{
		system: system, allow: newAllowed(cfg.Allow), metrics: m, log: cfg.Log, label: cfg.Cluster,
		plain: !cfg.TLS.on() && !cfg.Insecure,
		queue: cmp.Or(cfg.queue, maxQueue),
		dial:  dialOptions(s),
		quiet: rate.Sometimes{Interval: time.Second},
		bugs:  rate.Sometimes{Interval: time.Second},
		peers: map[string]*peer{},
	}
}

func newInbox(system *actor.ActorSystem, cfg Config, m *metrics) *inbox {
	return &inbox{
		system: system, allow: newAllowed(cfg.Allow), metrics: m, log: cfg.Log, label: cfg.Cluster,
		quiet: rate.Sometimes{Interval: time.Second},
	}
}

func dialOptions(s secrecy) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(s.client),
		grpc.WithNoProxy(), // the environment's proxy is for other traffic
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
	}
}

func serverOptions(in *inbox, cfg Config, s secrecy) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.Creds(s.server),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveLeast, PermitWithoutStream: true}),
	}
	if !cfg.off.receiving {
		options = append(options, grpc.StreamInterceptor(in.stream), grpc.UnaryInterceptor(in.unary))
	}
	return options
}

// remoteConfig is for the server. The library's own endpoint writer is not used;
// its values are those with which it does least harm, should a message of the
// library itself reach it.
func remoteConfig(e endpoint, cfg Config, server []grpc.ServerOption, dial []grpc.DialOption) *remote.Config {
	host := e.host
	if strings.Contains(host, ":") { // IPv6: the library puts a colon and the port behind it
		host = "[" + host + "]"
	}
	c := remote.Configure(host, e.port,
		remote.WithAdvertisedHost(e.advertise),
		remote.WithServerOptions(server...),
		remote.WithDialOptions(dial...))
	if !cfg.off.sending {
		c.EndpointWriterBatchSize, c.EndpointWriterQueueSize, c.MaxRetryCount = maxBatch, 1024, 1
	}
	return c
}

// Address is the host:port that PIDs of this process carry; it is known once the
// server was started.
func (w *Wire) Address() string { return w.system.Address() }

// Redial says that another process is at an address now: that one is dialled at
// once, however lately its predecessor did not answer.
func (w *Wire) Redial(address string) { w.out.redial(address) }

// Stop sends what waits and returns when every peer has read it, or after the
// grace; then nothing comes in any more, and what is sent is a dead letter.
func (w *Wire) Stop(grace time.Duration) {
	w.out.close(grace)
	w.server.Shutdown(false)
}
