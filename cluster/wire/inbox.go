package wire

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// labelKey is the metadata that names a stream's cluster; -bin lets it hold any
// bytes.
const labelKey = "belfry-cluster-bin"

// Why an envelope was not delivered.
const (
	dropSerializer = "serializer"
	dropIndex      = "index"
	dropType       = "type"
	dropTarget     = "target"
	dropAddress    = "address"
	dropGarbled    = "garbled"
	dropPanic      = "panic"
	dropProtocol   = "protocol"
)

// Why a connection, stream or call was refused.
const (
	refusedHandshake = "handshake" // no TLS, or no certificate of the CA
	refusedLabel     = "label"
	refusedUnary     = "unary"
	refusedPanic     = "panic"
)

// inbox takes what comes in, in front of the library's server.
type inbox struct {
	system  *actor.ActorSystem
	allow   allowed
	metrics *metrics
	log     *slog.Logger
	label   string
	quiet   rate.Sometimes
}

// stream is the gRPC interceptor of the one streaming call that there is.
func (in *inbox) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	if err := in.checkLabel(ss.Context()); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			in.metrics.refused.WithLabelValues(refusedPanic).Inc()
			in.log.Error("panic in a stream", "panic", r, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(srv, &incoming{ServerStream: ss, in: in})
}

func (in *inbox) checkLabel(ctx context.Context) error {
	got := metadata.ValueFromIncomingContext(ctx, labelKey)
	if len(got) == 1 && got[0] == in.label {
		return nil
	}
	in.metrics.refused.WithLabelValues(refusedLabel).Inc()
	in.quiet.Do(func() { in.log.Warn("refused a process of another cluster", "its", got, "ours", in.label) })
	return status.Errorf(codes.FailedPrecondition, "this process belongs to the cluster %q, not to %q", in.label, got)
}

// refusedHandshake is told of each failed one.
func (in *inbox) refusedHandshake(peer net.Addr, err error) {
	in.metrics.refused.WithLabelValues(refusedHandshake).Inc()
	in.quiet.Do(func() { in.log.Warn("refused a connection", "peer", peer.String(), "error", err) })
}

// unary refuses all calls but the stream: the library would panic.
func (in *inbox) unary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	in.metrics.refused.WithLabelValues(refusedUnary).Inc()
	return nil, status.Error(codes.Unimplemented, "not served")
}

// incoming is a stream as the library sees it: nothing but its end.
type incoming struct {
	grpc.ServerStream
	in *inbox
}

// RecvMsg delivers what comes in, until the stream is over.
func (s *incoming) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		switch t := m.(*remote.RemoteMessage).MessageType.(type) {
		case *remote.RemoteMessage_MessageBatch:
			s.in.take(t.MessageBatch)
		case *remote.RemoteMessage_ConnectRequest:
			if t.ConnectRequest.GetServerConnection() == nil {
				s.in.drop(dropProtocol, nil)
			} else if err := s.welcome(); err != nil {
				return err
			}
		default:
			s.in.drop(dropProtocol, nil)
		}
	}
}

// welcome answers the peer's first message. The library would look at its block
// list for that, which another goroutine writes without a lock, and in which
// whoever was once missed stays for ever.
func (s *incoming) welcome() error {
	answer := &remote.ConnectResponse{MemberId: s.in.system.ID}
	return s.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{ConnectResponse: answer}})
}

// take delivers a batch, each envelope by itself.
func (in *inbox) take(b *remote.MessageBatch) {
	delivered := 0
	for _, e := range b.GetEnvelopes() {
		if reason := in.deliver(b, e); reason != "" {
			in.drop(reason, e)
			in.answer(b, e)
			continue
		}
		delivered++
	}
	in.metrics.received.Add(float64(delivered))
}

func (in *inbox) drop(reason string, e *remote.MessageEnvelope) {
	in.metrics.dropped.WithLabelValues(reason).Inc()
	in.quiet.Do(func() {
		in.log.Warn("dropped what another process sent", "reason", reason, "bytes", len(e.GetMessageData()))
	})
}

// answer ends the request that a dropped envelope was at once: an old process
// does not know a message of a newer one.
func (in *inbox) answer(b *remote.MessageBatch, e *remote.MessageEnvelope) {
	sender, hasSender := at(b.GetSenders(), e.GetSender()-1)
	target, _ := at(b.GetTargets(), e.GetTarget())
	if hasSender && sender.GetAddress() != in.system.Address() { // a forged one of ours gets no false news
		in.system.Root.Send(withRequest(sender, e.GetSenderRequestId()), &actor.DeadLetterResponse{Target: target})
	}
}

// deliver sends an envelope to its actor, or says why not.
func (in *inbox) deliver(b *remote.MessageBatch, e *remote.MessageEnvelope) (reason string) {
	defer func() {
		if r := recover(); r != nil {
			in.log.Error("panic in the delivery of a message", "panic", r, "stack", string(debug.Stack()))
			reason = dropPanic
		}
	}()
	l, reason := in.open(b, e)
	if reason != "" {
		return reason
	}
	if l.sender == nil && len(l.header) == 0 {
		in.system.Root.Send(l.target, l.message)
		return ""
	}
	in.system.Root.Send(l.target, &actor.MessageEnvelope{Header: l.header, Message: l.message, Sender: l.sender})
	return ""
}

// open checks an envelope and reads the message in it.
func (in *inbox) open(b *remote.MessageBatch, e *remote.MessageEnvelope) (l letter, reason string) {
	kind, ok := at(b.GetTypeNames(), e.GetTypeId())
	target, hasTarget := at(b.GetTargets(), e.GetTarget())
	sender, hasSender := at(b.GetSenders(), e.GetSender()-1)
	switch {
	case e.GetSerializerId() != 0:
		return l, dropSerializer
	case !ok || !hasTarget || !hasSender && e.GetSender() != 0:
		return l, dropIndex
	case !in.allow.has(kind):
		return l, dropType
	case target.GetAddress() != in.system.Address():
		return l, dropAddress
	case isReserved(target.GetId()):
		return l, dropTarget
	}
	if l.message, reason = read(kind, e.GetMessageData()); reason != "" {
		return l, reason
	}
	l.target, l.header = withRequest(target, e.GetTargetRequestId()), e.GetMessageHeader().GetHeaderData()
	if hasSender {
		l.sender = withRequest(sender, e.GetSenderRequestId())
	}
	return l, ""
}

// read makes a message of its type's name and its bytes.
func read(kind string, data []byte) (proto.Message, string) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(kind))
	if err != nil {
		return nil, dropType
	}
	m := t.New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, dropGarbled
	}
	return m, ""
}

// withRequest is a PID under a request id; without one, the batch's own PID.
func withRequest(pid *actor.PID, request uint32) *actor.PID {
	if request == 0 {
		return pid
	}
	return &actor.PID{Address: pid.GetAddress(), Id: pid.GetId(), RequestId: request}
}

func at[T any](list []T, i int32) (v T, ok bool) {
	if i < 0 || int(i) >= len(list) {
		return v, false
	}
	return list[i], true
}
