package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	// kafkaUnsent bounds how long a record waits in the client for its
	// partition's leader. What has not left by then is not sent any more: this
	// node may not be the one to send it by then.
	kafkaUnsent = 2 * time.Second
	kafkaDial   = 2 * time.Second
	// kafkaInFlight is how many requests a Kafka node may have unanswered: since
	// nothing is repeated, they cannot put records out of order twice.
	kafkaInFlight = 16
)

// mechanisms log in to Kafka, by the name in the file of brokers.
var mechanisms = map[string]func(user, password string) sasl.Mechanism{
	"":      func(u, p string) sasl.Mechanism { return plain.Auth{User: u, Pass: p}.AsMechanism() },
	"plain": func(u, p string) sasl.Mechanism { return plain.Auth{User: u, Pass: p}.AsMechanism() },
	"scram-sha-256": func(u, p string) sasl.Mechanism {
		return scram.Auth{User: u, Pass: p}.AsSha256Mechanism()
	},
	"scram-sha-512": func(u, p string) sasl.Mechanism {
		return scram.Auth{User: u, Pass: p}.AsSha512Mechanism()
	},
}

// kafkaPublisher produces records.
type kafkaPublisher struct{ client *kgo.Client }

// dialKafka makes a client; it connects when it has something to send.
func dialKafka(_ context.Context, c Config) (Publisher, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(c.hosts()...), kgo.ClientID("belfry"), kgo.DialTimeout(kafkaDial),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The idempotence of a producer ends with its process and needs records
		// to be repeated by the client: each repeat is an attempt of ours.
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(kafkaInFlight),
		kgo.RecordRetries(0), kgo.UnknownTopicRetries(0), kgo.RecordDeliveryTimeout(kafkaUnsent),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(1 << 16),
	}
	if c.User != "" {
		password, err := c.password()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanisms[c.SASL](c.User, password)))
	}
	secure, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, kgo.DialTLSConfig(secure))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return &kafkaPublisher{client}, nil
}

func (p *kafkaPublisher) Publish(ctx context.Context, m *Message, may func() bool) (string, error) {
	record := &kgo.Record{Topic: m.To, Key: []byte(m.Key), Value: m.Payload}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	if !may() {
		return "", ErrMayNot
	}
	done := make(chan error, 1)
	p.client.Produce(ctx, record, func(_ *kgo.Record, err error) { done <- err })
	if err := <-done; err != nil {
		return "", kafkaError(err)
	}
	return fmt.Sprintf("partition %d, offset %d", record.Partition, record.Offset), nil
}

// kafkaError says which errors leave no doubt.
func kafkaError(err error) error {
	var answer *kerr.Error
	var dial *net.OpError
	switch {
	case errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return err // it may have been stored
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidRecord):
		return &Refused{Err: err, Final: true}
	case errors.As(err, &answer):
		return &Refused{Err: err}
	case errors.Is(err, kgo.ErrMaxBuffered), errors.Is(err, kgo.ErrClientClosed), errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", err, job.ErrNotSent)
	}
	return err // also kgo.ErrRecordTimeout: a record that was sent and not answered ends with it too
}

func (p *kafkaPublisher) Close() { p.client.Close() }
