package wire

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Why a message was not sent.
const (
	lostUnreachable = "unreachable" // no connection, or it ended
	lostQueueFull   = "queue_full"
	lostTooLarge    = "too_large"
	lostType        = "type"   // the receiver would not take it
	lostSystem      = "system" // Watch, Stop and the like end at the process
	lostEncoding    = "encoding"
)

// outbox is the process behind every PID of another process.
type outbox struct {
	system  *actor.ActorSystem
	allow   allowed
	metrics *metrics
	log     *slog.Logger
	dial    []grpc.DialOption
	label   string
	plain   bool           // dials loopback only
	queue   int            // bytes, for each peer
	quiet   rate.Sometimes // says that messages are lost
	bugs    rate.Sometimes // says that a message should not have been sent

	mu      sync.Mutex
	peers   map[string]*peer
	stopped bool
	running sync.WaitGroup
}

var _ actor.Process = (*outbox)(nil)

// resolve is protoactor's hook: it is asked about each address but our own.
func (o *outbox) resolve(*actor.PID) (actor.Process, bool) { return o, true }

// SendUserMessage sends, or tells the sender at once that it cannot.
func (o *outbox) SendUserMessage(pid *actor.PID, message any) {
	header, inner, sender := actor.UnwrapEnvelope(message)
	l := letter{target: pid, sender: sender}
	if header != nil && header.Length() > 0 {
		l.header = header.ToMap()
	}
	m, ok := inner.(proto.Message)
	if !ok {
		o.refuse(l, inner, lostType)
		return
	}
	l.message, l.kind = m, typeName(m)
	if !o.allow.has(l.kind) {
		o.refuse(l, inner, lostType)
		return
	}
	size := proto.Size(m)
	if n := l.size() + size; n > maxMessage {
		o.refuse(l, inner, lostTooLarge, "bytes", n, "most", maxMessage)
		return
	}
	var err error
	if l.data, err = (proto.MarshalOptions{UseCachedSize: true}).Marshal(m); err != nil {
		o.refuse(l, inner, lostEncoding, "error", err)
		return
	}
	o.post(l)
}

// SendSystemMessage refuses: what controls an actor ends at its process.
func (o *outbox) SendSystemMessage(pid *actor.PID, message any) {
	o.refuse(letter{target: pid}, message, lostSystem)
}

// Stop refuses, as above.
func (o *outbox) Stop(pid *actor.PID) { o.SendSystemMessage(pid, &actor.Stop{}) }

// refuse is for what should not have been sent: a bug on this side.
func (o *outbox) refuse(l letter, message any, reason string, more ...any) {
	o.bugs.Do(func() {
		attrs := append([]any{"type", fmt.Sprintf("%T", message), "target", l.target.String(), "reason", reason}, more...)
		o.log.Error("message cannot go to another process", attrs...)
	})
	o.metrics.lost.WithLabelValues(reason).Inc()
	o.answer(l, message)
}

// post hands a letter to its peer. A peer that is just ending takes none; the
// next one does.
func (o *outbox) post(l letter) {
	for {
		p := o.peer(l.target.GetAddress())
		if p == nil {
			o.lose(lostUnreachable, l)
			return
		}
		switch p.put(l) {
		case taken:
			return
		case full:
			o.lose(lostQueueFull, l)
			return
		case down:
			o.lose(lostUnreachable, l)
			return
		case gone:
		}
	}
}

// peer is the one for an address, a new one if need be; nil after the end.
func (o *outbox) peer(address string) *peer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped {
		return nil
	}
	p, ok := o.peers[address]
	if !ok {
		p = newPeer(o, address)
		o.peers[address] = p
		o.running.Go(p.run)
	}
	return p
}

func (o *outbox) redial(address string) {
	o.mu.Lock()
	p := o.peers[address]
	o.mu.Unlock()
	if p != nil {
		p.redial()
	}
}

func (o *outbox) remove(p *peer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.peers, p.address)
}

// lose counts letters that were not sent, and answers each.
func (o *outbox) lose(reason string, letters ...letter) {
	if len(letters) == 0 {
		return
	}
	o.metrics.lost.WithLabelValues(reason).Add(float64(len(letters)))
	o.quiet.Do(func() {
		o.log.Warn("messages to another process are lost", "address", letters[0].target.GetAddress(), "reason", reason, "messages", len(letters))
	})
	for _, l := range letters {
		o.answer(l, l.message)
	}
}

// answer tells the sender, or else the dead letters, that nobody got it.
func (o *outbox) answer(l letter, message any) {
	if l.sender != nil {
		o.system.Root.Send(l.sender, &actor.DeadLetterResponse{Target: l.target})
		return
	}
	o.system.EventStream.Publish(&actor.DeadLetterEvent{PID: l.target, Message: message})
}

// close lets every peer send what waits, until the time is over.
func (o *outbox) close(grace time.Duration) {
	o.mu.Lock()
	o.stopped = true
	peers := make([]*peer, 0, len(o.peers))
	for _, p := range o.peers {
		peers = append(peers, p)
	}
	o.mu.Unlock()
	for _, p := range peers {
		p.finish(grace)
	}
	o.running.Wait()
}
