package broker

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-scheduler/belfry/messages/job"
)

const produceKey = 0 // of a produce request, in Kafka's protocol

// startKafka runs the fake cluster of the client's authors.
func startKafka(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, *Set) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, setOf(t, Config{URL: "kafka://" + strings.Join(c.ListenAddrs(), ",")})
}

// answerProduce makes the broker answer one produce request with an error, before
// or after it has stored the record.
func answerProduce(c *kfake.Cluster, code int16) {
	c.ControlKey(produceKey, func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.ProduceRequest)
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, code
				t.Partitions = append(t.Partitions, p)
			}
			answer.Topics = append(answer.Topics, t)
		}
		return answer, nil, true
	})
}

func read(t *testing.T, c *kfake.Cluster, n int) []*kgo.Record {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n && ctx.Err() == nil {
		records = append(records, reader.PollFetches(ctx).Records()...)
	}
	return records
}

func TestKafkaStoresARecord(t *testing.T) {
	c, set := startKafka(t)
	m := &Message{To: "orders", ID: "job~1~x", Key: "job", Headers: [][2]string{{"Idempotency-Key", "job~1~x"}, {"ce_id", "job~1~x"}}, Payload: []byte(`{"a":1}`)}
	for _, want := range []string{"partition 0, offset 0", "partition 0, offset 1"} {
		if got, err := set.Publish(t.Context(), Kafka, "main", m, always); err != nil || got != want {
			t.Fatalf("%q, %v: want %q", got, err, want)
		}
	}
	records := read(t, c, 2)
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	r := records[0]
	if string(r.Key) != "job" || string(r.Value) != `{"a":1}` || len(r.Headers) != 2 || r.Headers[0].Key != "Idempotency-Key" || string(r.Headers[0].Value) != "job~1~x" || r.Headers[1].Key != "ce_id" {
		t.Errorf("stored %+v", r)
	}
}

// A request is sent once, whatever is answered, and only a plain refusal is one.
func TestKafkaAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		code           int16
		refused, final bool
	}{
		"not enough replicas":       {kerr.NotEnoughReplicas.Code, true, false},
		"another leader":            {kerr.NotLeaderForPartition.Code, true, false},
		"not authorised":            {kerr.TopicAuthorizationFailed.Code, true, false},
		"too large":                 {kerr.MessageTooLarge.Code, true, true},
		"stored, too few replicas":  {kerr.NotEnoughReplicasAfterAppend.Code, false, false},
		"the broker's own time-out": {kerr.RequestTimedOut.Code, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, set := startKafka(t)
			if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders"}, always); err != nil {
				t.Fatal(err)
			}
			answerProduce(cluster, c.code)
			var refused *Refused
			_, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders"}, always)
			if err == nil || errors.Is(err, job.ErrNotSent) || errors.As(err, &refused) != c.refused || c.refused && refused.Final != c.final {
				t.Errorf("%v", err)
			}
			if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders", Key: "last"}, always); err != nil {
				t.Fatal(err)
			}
			if records := read(t, cluster, 2); len(records) != 2 || string(records[1].Key) != "last" {
				t.Errorf("%d records: the refused one was sent again", len(records))
			}
		})
	}
}

// A lost acknowledgement is in doubt, and not repeated.
func TestKafkaLosesAnAnswer(t *testing.T) {
	cluster, set := startKafka(t)
	if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders"}, always); err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{}, 10)
	cluster.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		seen <- struct{}{}
		return nil, errors.New("the connection is closed"), true
	})
	var refused *Refused
	if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders"}, always); err == nil || errors.Is(err, job.ErrNotSent) || errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	if n := len(seen); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestKafkaNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	set := setOf(t, Config{URL: "kafka://" + l.Addr().String()})
	if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders"}, always); !errors.Is(err, job.ErrNotSent) {
		t.Errorf("nobody listens: %v", err)
	}
	_, set = startKafka(t)
	var refused *Refused
	if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "nowhere"}, always); !errors.As(err, &refused) {
		t.Errorf("no such topic: %v", err)
	}
	if _, err := set.Publish(t.Context(), Kafka, "main", &Message{To: "orders"}, func() bool { return false }); !errors.Is(err, ErrMayNot) {
		t.Errorf("a node that may not send: %v", err)
	}
}
