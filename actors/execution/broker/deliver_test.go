package broker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-scheduler/belfry/actors/execution"
	"github.com/belfry-scheduler/belfry/actors/execution/broker"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func always() bool { return true }

func delivery(target *belfryv1.Target, change ...func(*belfryv1.Delivery)) *belfryv1.Delivery {
	d := &belfryv1.Delivery{
		ExecutionId: "job~1~r1~20260101T000000.000Z", JobId: "job", Key: "job~1~20260101T000000.000Z", ScheduledFor: 1767225600000,
		Attempt: 2, TimeoutMs: 30_000, Target: target,
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func toNATS(n *belfryv1.NATSTarget) *belfryv1.Target {
	n.Broker = "main"
	return &belfryv1.Target{Kind: &belfryv1.Target_Nats{Nats: n}}
}

func toKafka(k *belfryv1.KafkaTarget) *belfryv1.Target {
	k.Broker = "main"
	return &belfryv1.Target{Kind: &belfryv1.Target_Kafka{Kafka: k}}
}

// What a message says of its delivery, beside the spelling of a broker.
var named = map[string]string{
	"Idempotency-Key": "job~1~20260101T000000.000Z", "Belfry-Execution-Id": "job~1~r1~20260101T000000.000Z", "Belfry-Job-Id": "job",
	"Belfry-Scheduled-For": "2026-01-01T00:00:00.000Z", "Belfry-Attempt": "2", "Belfry-Epoch": "7",
	"X-Mine": "yes", "Authorization": "Bearer s3cret-token", "content-type": "application/json",
}

func withEvent(prefix string) map[string]string {
	want := map[string]string{
		prefix + "specversion": "1.0", prefix + "type": "belfry.execution.due", prefix + "source": "/belfry",
		prefix + "id": "job~1~20260101T000000.000Z", prefix + "time": "2026-01-01T00:00:00.000Z",
	}
	for name, value := range named {
		want[name] = value
	}
	return want
}

var (
	vault   = &execution.Vault{Getenv: func(string) (string, bool) { return "s3cret-token", true }}
	headers = map[string]string{"X-Mine": "yes", "Authorization": "Bearer env://BELFRY_SECRET_TOKEN", "Belfry-Epoch": "0"}
)

func TestWhatNATSReceives(t *testing.T) {
	s := broker.StartNATS(t)
	stream := broker.Stream(t, s)
	set := broker.NewSet(map[string]broker.Config{"main": {URL: s.ClientURL()}})
	t.Cleanup(set.Close)
	p := execution.NewPublisher(execution.PublisherConfig{Brokers: set, Vault: vault})
	d := delivery(toNATS(&belfryv1.NATSTarget{Subject: "orders.due", Headers: headers, Payload: []byte(`{"a":1}`)}))
	r := p.Deliver(t.Context(), d, 7, always)
	if r.GetOutcome() != belfryv1.Result_OUTCOME_SUCCEEDED || r.GetOutput() != "stream ORDERS, sequence 1" || r.GetSentAt() == 0 || r.GetFinishedAt() < r.GetSentAt() {
		t.Fatalf("%v", r)
	}
	m, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, withEvent("ce-")
	for name := range m.Header {
		got[name] = m.Header.Get(name)
	}
	want["Nats-Msg-Id"] = "job~1~20260101T000000.000Z"
	if diff := cmp.Diff(want, got); diff != "" || string(m.Data) != `{"a":1}` {
		t.Errorf("%s %s", diff, m.Data)
	}
}

func TestWhatKafkaReceives(t *testing.T) {
	c, set := broker.StartKafka(t)
	p := execution.NewPublisher(execution.PublisherConfig{Brokers: set, Vault: vault})
	for _, key := range []string{"", "mine"} {
		d := delivery(toKafka(&belfryv1.KafkaTarget{Topic: "orders", Key: key, Headers: headers, Payload: []byte(`{"a":1}`)}))
		if r := p.Deliver(t.Context(), d, 7, always); r.GetOutcome() != belfryv1.Result_OUTCOME_SUCCEEDED || !strings.HasPrefix(r.GetOutput(), "partition 0, offset ") {
			t.Fatalf("%v", r)
		}
	}
	records := broker.Records(t, c, 2)
	if len(records) != 2 || string(records[0].Key) != "job" || string(records[1].Key) != "mine" {
		t.Fatalf("%v", records)
	}
	got := map[string]string{}
	for _, h := range records[0].Headers {
		got[h.Key] = string(h.Value)
	}
	if diff := cmp.Diff(withEvent("ce_"), got); diff != "" || string(records[0].Value) != `{"a":1}` {
		t.Errorf("%s %s", diff, records[0].Value)
	}
}

func TestOutcomesOfMessages(t *testing.T) {
	cluster, set := broker.StartKafka(t)
	p := execution.NewPublisher(execution.PublisherConfig{Brokers: set, Vault: &execution.Vault{Getenv: func(string) (string, bool) { return "", false }}})
	orders := func() *belfryv1.Target { return toKafka(&belfryv1.KafkaTarget{Topic: "orders"}) }
	if r := p.Deliver(t.Context(), delivery(orders()), 1, always); r.GetOutcome() != belfryv1.Result_OUTCOME_SUCCEEDED {
		t.Fatalf("%v", r)
	}
	silent := func(c *kfake.Cluster) {
		c.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
	}
	for name, c := range map[string]struct {
		d      *belfryv1.Delivery
		before func(*kfake.Cluster)
		want   belfryv1.Result_Outcome
		sent   bool
		text   string
	}{
		"no such broker": {delivery(&belfryv1.Target{Kind: &belfryv1.Target_Nats{Nats: &belfryv1.NATSTarget{Broker: "other", Subject: "a"}}}), nil, belfryv1.Result_OUTCOME_FAILED, false, "--brokers-file"},
		"no such topic":  {delivery(toKafka(&belfryv1.KafkaTarget{Topic: "nowhere"})), nil, belfryv1.Result_OUTCOME_FAILED, true, "refused"},
		"no such secret": {delivery(toKafka(&belfryv1.KafkaTarget{Topic: "orders", Headers: headers})), nil, belfryv1.Result_OUTCOME_FAILED, false, "no such variable"},
		"silence":        {delivery(orders(), func(d *belfryv1.Delivery) { d.TimeoutMs = 300 }), silent, belfryv1.Result_OUTCOME_TIMEOUT, true, "within 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.before != nil {
				c.before(cluster)
			}
			r := p.Deliver(t.Context(), c.d, 1, always)
			if r.GetOutcome() != c.want || (r.GetSentAt() != 0) != c.sent || !strings.Contains(r.GetError(), c.text) {
				t.Errorf("%v", r)
			}
		})
	}
	if r := p.Deliver(t.Context(), delivery(orders()), 1, func() bool { return false }); r != nil {
		t.Errorf("a node that may not send: %v", r)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if r := p.Deliver(cut, delivery(toNATS(&belfryv1.NATSTarget{Subject: "a"})), 1, always); r != nil {
		t.Errorf("cut before it was sent: %v", r)
	}
}
