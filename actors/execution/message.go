package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/belfry-scheduler/belfry/actors/execution/broker"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// PublisherConfig is what a Publisher needs.
type PublisherConfig struct {
	// Brokers are those that jobs may name.
	Brokers *broker.Set
	// Vault reads the secrets that headers refer to. Default: variables only.
	Vault *Vault
	// Source is this cluster's name in the CloudEvents attribute source. Default
	// "/belfry".
	Source string
}

// Publisher delivers to brokers: a delivery is one message. It is a Deliverer.
type Publisher struct{ cfg PublisherConfig }

var _ Deliverer = (*Publisher)(nil)

// NewPublisher makes the publisher of a node.
func NewPublisher(cfg PublisherConfig) *Publisher {
	if cfg.Vault == nil {
		cfg.Vault = &Vault{}
	}
	cfg.Source = cmp.Or(cfg.Source, defaultSource)
	return &Publisher{cfg}
}

// letter is a delivery as a message for a broker.
type letter struct {
	kind, broker string
	headers      map[string]string // of the job
	prefix       string            // of CloudEvents attributes
	message      broker.Message
}

// letterOf addresses a delivery; nil when it is not for a broker.
func letterOf(d *belfryv1.Delivery) *letter {
	n, k := d.GetTarget().GetNats(), d.GetTarget().GetKafka()
	switch {
	case n != nil: // https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/nats-protocol-binding.md
		return &letter{broker.NATS, n.GetBroker(), n.GetHeaders(), "ce-", broker.Message{To: n.GetSubject(), ID: d.GetKey(), Payload: n.GetPayload()}}
	case k != nil: // https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md
		key := cmp.Or(k.GetKey(), d.GetJobId())
		return &letter{broker.Kafka, k.GetBroker(), k.GetHeaders(), "ce_", broker.Message{To: k.GetTopic(), ID: d.GetKey(), Key: key, Payload: k.GetPayload()}}
	}
	return nil
}

// Deliver implements Deliverer: one message.
func (p *Publisher) Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
	l, limit := letterOf(d), limitOf(d)
	headers, put, err := p.cfg.Vault.reveal(l.headers)
	if err != nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: clip("nothing was sent: "+err.Error(), maxError)}
	}
	l.message.Headers = p.headersOf(l, headers, d, epoch)
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now().UnixMilli()
	receipt, err := p.cfg.Brokers.Publish(call, l.kind, l.broker, &l.message, may)
	if errors.Is(err, broker.ErrMayNot) || errors.Is(err, job.ErrNotSent) && ctx.Err() != nil {
		return nil
	}
	r := published(err)
	switch {
	case r.Outcome == belfryv1.Result_OUTCOME_UNKNOWN && ctx.Err() == nil && call.Err() != nil:
		r.Outcome, r.Error = belfryv1.Result_OUTCOME_TIMEOUT, fmt.Sprintf("the broker did not acknowledge within %v", limit)
	case r.Outcome == belfryv1.Result_OUTCOME_UNKNOWN:
		r.Error = "the message was sent, and the acknowledgement was lost: " + cmp.Or(context.Cause(ctx), err).Error()
	}
	var refused *broker.Refused
	r.Unavailable = err != nil && !errors.As(err, &refused) && ctx.Err() == nil
	if !errors.Is(err, job.ErrNotSent) {
		r.SentAt = start
	}
	secrets := secrets{}.with(put)
	r.Output, r.Error = receipt, secrets.mask(r.Error, maxError)
	r.FinishedAt = time.Now().UnixMilli()
	return r
}

// published says what the answer of a broker means for an attempt.
func published(err error) *belfryv1.Result {
	var refused *broker.Refused
	switch {
	case err == nil:
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}
	case errors.As(err, &refused):
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Final: refused.Final, Error: err.Error()}
	case errors.Is(err, job.ErrNotSent):
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: err.Error()}
	}
	return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_UNKNOWN}
}

// headersOf are the job's headers and those that name the delivery.
func (p *Publisher) headersOf(l *letter, own map[string]string, d *belfryv1.Delivery, epoch int64) [][2]string {
	var headers [][2]string
	field := func(name, value string) { headers = append(headers, [2]string{name, value}) }
	typed := false
	for name, value := range own {
		if !job.ReservedHeader(name) {
			typed = typed || http.CanonicalHeaderKey(name) == "Content-Type"
			field(name, value)
		}
	}
	if !typed && len(l.message.Payload) > 0 {
		field("content-type", contentType(l.message.Payload))
	}
	identify(field, d, epoch)
	cloudEvent(field, l.prefix, p.cfg.Source, d)
	return headers
}
