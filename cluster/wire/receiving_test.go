package wire

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

var receivingOff = plain.with(func(c *nodeConfig) { c.OffReceiving = true })

// hostile is what must not be delivered, and what it does to a node without the
// guard.
var hostile = []struct {
	name   string
	reason string
	make   func(t *testing.T) envelope
	harm   harm
}{
	{"unknown type of ours", dropType, of("belfry.v1.NotYet"), crashes},
	{"unknown type", dropType, of("shop.v1.Order"), crashes},
	{"known type, not allowed", dropType, plainly(&cluster.ClusterTopology{}), delivers},
	{"Stop", dropType, plainly(&actor.Stop{}), stops},
	{"PoisonPill", dropType, plainly(&actor.PoisonPill{}), stops},
	{"Watch", dropType, plainly(&actor.Watch{Watcher: actor.NewPID("127.0.0.1:1", "x")}), delivers},
	{"Terminated", dropType, plainly(&actor.Terminated{Who: actor.NewPID("127.0.0.1:1", "x")}), delivers},
	{"garbled", dropGarbled, func(*testing.T) envelope {
		return envelope{to: "echo", kind: "belfry.v1.Perform", data: []byte{0x0a, 0xff, 0x01, 'x'}}
	}, cuts},
	{"truncated", dropGarbled, func(t *testing.T) envelope {
		e := enclose(t, "echo", message(1, 100))
		e.data = e.data[:len(e.data)-50]
		return e
	}, cuts},
	{"JSON", dropSerializer, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.SerializerId = 1 }), delivers},
	{"no such serializer", dropSerializer, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.SerializerId = 7 }), crashes},
	{"no such type index", dropIndex, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.TypeId = 99 }), crashes},
	{"negative type index", dropIndex, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.TypeId = -1 }), crashes},
	{"no such target index", dropIndex, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.Target = 99 }), crashes},
	{"no such sender index", dropIndex, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.Sender = 99 }), crashes},
	{"negative sender index", dropIndex, changed(func(e *remote.MessageEnvelope, _ *remote.MessageBatch) { e.Sender = -1 }), crashes},
	{"another address", dropAddress, changed(func(e *remote.MessageEnvelope, b *remote.MessageBatch) {
		b.Targets[e.Target].Address = "127.0.0.1:1"
	}), delivers},
	{"no address", dropAddress, changed(func(e *remote.MessageEnvelope, b *remote.MessageBatch) { b.Targets[e.Target].Address = "" }), delivers},
	{"event stream", dropTarget, to("eventstream"), publishes},
	{"activator", dropTarget, to("activator"), delivers},
	{"dead letters", dropTarget, to("deadletter"), delivers},
	{"child of the library's", dropTarget, to("EndpointSupervisor/$1"), delivers},
	{"process that panics", dropPanic, to("bomb"), crashes},
}

// harm is what the library does with an envelope.
type harm int

const (
	delivers  harm = iota // it goes on, wherever that leads: not looked at
	crashes               // the process ends
	cuts                  // the stream ends, with all that is in the batch
	stops                 // the actor is gone
	publishes             // it is an event of the node
)

func of(kind string) func(*testing.T) envelope {
	return func(*testing.T) envelope { return envelope{to: "echo", kind: kind} }
}

func plainly(m proto.Message) func(*testing.T) envelope {
	return func(t *testing.T) envelope { return enclose(t, "echo", m) }
}

func to(id string) func(*testing.T) envelope {
	return func(t *testing.T) envelope { return enclose(t, id, &belfryv1.Events{}) }
}

func changed(change func(*remote.MessageEnvelope, *remote.MessageBatch)) func(*testing.T) envelope {
	return func(t *testing.T) envelope {
		e := enclose(t, "echo", message(1, 0))
		e.change = change
		return e
	}
}

// Each of the hostile costs itself: its neighbours arrive, and the stream goes
// on.
func TestHostile(t *testing.T) {
	b := start(t, plain)
	r := connect(t, b)
	good := enclose(t, "echo", message(1, 0))
	for i, tt := range hostile {
		before := b.stats()
		r.batch(good, tt.make(t), good)
		after := b.until(tt.name, func(r report) bool { return r.Got == int64(2*(i+1)) })
		name := "dropped_total{" + tt.reason + "}"
		if n := after.Metrics[name] - before.Metrics[name]; n != 1 {
			t.Errorf("%s: %v dropped as %s: %v", tt.name, n, tt.reason, after.Metrics)
		}
		if after.Published != 0 {
			t.Errorf("%s was published", tt.name)
		}
	}
}

func TestHostileUnguarded(t *testing.T) {
	for _, tt := range hostile {
		if tt.harm == delivers {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := start(t, receivingOff)
			r := connect(t, b)
			r.batch(tt.make(t))
			switch tt.harm {
			case crashes:
				b.dies()
			case cuts:
				t.Log(r.over())
			case stops:
				b.until("dead letters of a stopped actor", func(s report) bool {
					r.batch(enclose(t, "echo", message(1, 0)))
					return s.DeadLetters > 0
				})
			case publishes:
				b.until("an event", func(s report) bool { return s.Published > 0 })
			}
		})
	}
}

// A request that an old node does not understand ends at once.
func TestDroppedRequest(t *testing.T) {
	b, waiting := start(t, plain), start(t, plain)
	r := connect(t, b)
	r.batch(envelope{to: "echo", kind: "belfry.v1.NotYet", change: func(e *remote.MessageEnvelope, m *remote.MessageBatch) {
		m.Senders = []*actor.PID{{Address: waiting.address, Id: "echo"}}
		e.Sender = 1
	}})
	waiting.until("the answer", func(r report) bool { return r.Metrics["received_total"] == 1 })
}

// What is neither a batch nor a handshake is passed over.
func TestProtocol(t *testing.T) {
	b := start(t, plain)
	r := connect(t, b)
	for _, m := range []*remote.RemoteMessage{
		{},
		{MessageType: &remote.RemoteMessage_DisconnectRequest{DisconnectRequest: &remote.DisconnectRequest{}}},
		{MessageType: &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{}}},
		{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{}}},
		{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
			ConnectionType: &remote.ConnectRequest_ClientConnection{ClientConnection: &remote.ClientConnection{}},
		}}},
	} {
		r.send(m)
	}
	r.batch(enclose(t, "echo", message(1, 0)))
	b.until("the message behind them", func(r report) bool { return r.Got == 1 && r.Metrics["dropped_total{protocol}"] == 5 })
}

// The library has no code behind its unary calls.
func TestUnary(t *testing.T) {
	for name, c := range map[string]nodeConfig{"guarded": plain, "unguarded": receivingOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, c)
			r := connect(t, b)
			_, err := remote.NewRemotingClient(r.conn).ListProcesses(context.Background(), &remote.ListProcessesRequest{})
			if c.OffReceiving {
				b.dies()
				return
			}
			if status.Code(err) != codes.Unimplemented || b.stats().Metrics["refused_total{unary}"] != 1 {
				t.Errorf("error %v, %+v", err, b.stats())
			}
		})
	}
}

// stream is a stream of a process of the cluster "test".
type stream struct{ grpc.ServerStream }

func (stream) Context() context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs(labelKey, "test"))
}

// Whatever the library's reader does, the process goes on.
func TestReaderPanics(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := &inbox{metrics: m, log: discard, label: "test"}
	err = in.stream(nil, stream{}, nil, func(any, grpc.ServerStream) error { panic("reader") })
	if status.Code(err) != codes.Internal || testutil.ToFloat64(m.refused) != 1 {
		t.Errorf("error %v", err)
	}
}

// A message of 100 MiB that comes in ends its stream, and nothing else.
func TestHugeMessage(t *testing.T) {
	b := start(t, plain)
	huge, other := connect(t, b), connect(t, b)
	e := enclose(t, "echo", message(1, 100<<20))
	// The send may already see the end of the stream.
	_ = huge.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &remote.MessageBatch{
		TypeNames: []string{e.kind}, Targets: []*actor.PID{{Address: b.address, Id: "echo"}}, Envelopes: []*remote.MessageEnvelope{{MessageData: e.data}},
	}}})
	if err := huge.over(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the stream ended with %v", err)
	}
	other.batch(enclose(t, "echo", message(1, 0)))
	b.until("a message on another stream", func(r report) bool { return r.Got == 1 })
}

// Two clusters never exchange messages, though one dials the other's address.
func TestOtherCluster(t *testing.T) {
	other := plain.with(func(c *nodeConfig) { c.Cluster = "other" })
	t.Run("guarded", func(t *testing.T) {
		a, b := start(t, plain), start(t, other)
		if r := a.tell(order{Op: "request", Address: b.address, ID: "echo", N: 1, Timeout: patience}); r.Dead != 1 {
			t.Errorf("%+v", r)
		}
		if r := b.stats(); r.Got != 0 || r.Metrics["refused_total{label}"] != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("unguarded", func(t *testing.T) {
		a := start(t, plain)
		b := start(t, other.with(func(c *nodeConfig) { c.OffReceiving = true }))
		a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: 1})
		b.until("the message", func(r report) bool { return r.Got == 1 })
	})
}
