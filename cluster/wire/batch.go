package wire

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

// letter is a message on its way out.
type letter struct {
	target, sender *actor.PID // sender: nil when no answer is wanted
	header         map[string]string
	message        proto.Message // as it was given, for its dead letter
	kind           string        // its type
	data           []byte        // marshalled
}

// letterOverhead covers the indices and lengths of an envelope, and the
// addresses of its target and sender.
const letterOverhead = 128

// size is about the bytes that the letter takes, in memory and on the wire.
func (l letter) size() int {
	n := len(l.data) + len(l.kind) + len(l.target.GetId()) + len(l.sender.GetId()) + letterOverhead
	for k, v := range l.header {
		n += len(k) + len(v) + 8
	}
	return n
}

// batch builds one message of the library's protocol: envelopes that refer to
// lists of types, targets and senders by index. Targets and senders stand there
// without their request ids, which are the envelope's.
type batch struct {
	out     remote.MessageBatch
	types   map[string]int32
	targets map[pidKey]int32
	senders map[pidKey]int32
}

type pidKey struct{ address, id string }

// newBatch puts letters into one batch.
func newBatch(letters []letter) *remote.RemoteMessage {
	b := batch{types: map[string]int32{}, targets: map[pidKey]int32{}, senders: map[pidKey]int32{}}
	b.out.Envelopes = make([]*remote.MessageEnvelope, 0, len(letters))
	for _, l := range letters {
		b.add(l)
	}
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &b.out}}
}

func (b *batch) add(l letter) {
	e := &remote.MessageEnvelope{
		TypeId:          b.kind(l.kind),
		MessageData:     l.data,
		Target:          index(l.target, b.targets, &b.out.Targets),
		TargetRequestId: l.target.GetRequestId(),
	}
	if l.sender != nil { // counted from 1, as 0 says nobody
		e.Sender = 1 + index(l.sender, b.senders, &b.out.Senders)
		e.SenderRequestId = l.sender.GetRequestId()
	}
	if len(l.header) > 0 {
		e.MessageHeader = &remote.MessageHeader{HeaderData: l.header}
	}
	b.out.Envelopes = append(b.out.Envelopes, e)
}

func (b *batch) kind(name string) int32 {
	i, ok := b.types[name]
	if !ok {
		i = int32(len(b.out.TypeNames))
		b.types[name] = i
		b.out.TypeNames = append(b.out.TypeNames, name)
	}
	return i
}

func index(pid *actor.PID, seen map[pidKey]int32, list *[]*actor.PID) int32 {
	key := pidKey{pid.GetAddress(), pid.GetId()}
	i, ok := seen[key]
	if !ok {
		i = int32(len(*list))
		seen[key] = i
		*list = append(*list, &actor.PID{Address: key.address, Id: key.id})
	}
	return i
}

// cut is how many letters go into the next batch: at least one, at most
// maxBatch, and none more once there are maxMessage bytes.
func cut(queue []letter) int {
	n, bytes := 0, 0
	for n < len(queue) && n < maxBatch && bytes < maxMessage {
		bytes += queue[n].size()
		n++
	}
	return n
}
