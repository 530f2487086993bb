package wire

import (
	"maps"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// What one side puts into a batch, the other one takes out, through the wire.
func TestBatch(t *testing.T) {
	in := &inbox{system: quietSystem(), allow: newAllowed([]string{"actor.Touch"})}
	here := func(id string, request uint32) *actor.PID {
		return &actor.PID{Address: in.system.Address(), Id: id, RequestId: request}
	}
	there := func(id string, request uint32) *actor.PID {
		return &actor.PID{Address: "127.0.0.2:7947", Id: id, RequestId: request}
	}
	letters := []letter{
		{target: here("host", 0), message: &belfryv1.Activate{Kind: "cart"}},
		{target: here("host", 7), sender: there("future$1", 0), message: &belfryv1.Activate{Kind: "cart", Identity: "1"}},
		{target: here("host/p1-e2", 0), sender: there("future$2", 9), message: &belfryv1.Activated{Id: "x"}, header: map[string]string{"traceparent": "00-1"}},
		{target: here("host", 0), sender: there("future$1", 3), message: &actor.DeadLetterResponse{}},
		{target: here("node", 0), sender: here("future$1", 0), message: &actor.Touch{}},
	}
	for i := range letters {
		l := &letters[i]
		data, err := proto.Marshal(l.message)
		if err != nil {
			t.Fatal(err)
		}
		l.kind, l.data = typeName(l.message), data
	}
	sent := newBatch(letters)
	data, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	got := proto.CloneOf(sent)
	if err := proto.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	b := got.GetMessageBatch()
	if len(b.TypeNames) != 4 || len(b.Targets) != 3 || len(b.Senders) != 3 {
		t.Errorf("lists of %d types, %d targets, %d senders, want each once", len(b.TypeNames), len(b.Targets), len(b.Senders))
	}
	for i, e := range b.Envelopes {
		want := letters[i]
		l, reason := in.open(b, e)
		if reason != "" {
			t.Fatalf("letter %d: dropped, %s", i, reason)
		}
		if !proto.Equal(l.target, want.target) || !proto.Equal(l.sender, want.sender) || !proto.Equal(l.message, want.message) || !maps.Equal(l.header, want.header) {
			t.Errorf("letter %d: got %v, want %v", i, l, want)
		}
	}
}

func TestCut(t *testing.T) {
	letters := func(n, size int) []letter {
		l := make([]letter, n)
		for i := range l {
			l[i].data = make([]byte, size)
		}
		return l
	}
	for _, tt := range []struct {
		n, size, want int
	}{
		{0, 0, 0}, {1, 0, 1}, {1, maxMessage, 1}, {3, maxMessage, 1},
		{maxBatch, 10, maxBatch}, {maxBatch + 1, 10, maxBatch}, {10, maxMessage/2 - letterOverhead, 2},
	} {
		if got := cut(letters(tt.n, tt.size)); got != tt.want {
			t.Errorf("%d letters of %d bytes: first batch of %d, want %d", tt.n, tt.size, got, tt.want)
		}
	}
}
