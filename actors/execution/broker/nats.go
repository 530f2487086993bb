package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	natsDial  = 2 * time.Second        // for one connection to a server
	natsPause = 500 * time.Millisecond // before one is tried again
)

// natsPublisher publishes to JetStream.
type natsPublisher struct {
	conn   *nats.Conn
	stream jetstream.JetStream
}

func dialNATS(ctx context.Context, c Config) (Publisher, error) {
	options := []nats.Option{
		nats.Name("belfry"), nats.Timeout(natsDial), nats.MaxReconnects(-1), nats.ReconnectWait(natsPause),
		nats.ReconnectBufSize(-1), // nothing is sent later than it says
	}
	if c.User != "" {
		options = append(options, nats.UserInfoHandler(func() (string, string) {
			password, _ := c.password() // a file that cannot be read is a login that is refused
			return c.User, password
		}))
	}
	secure, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	conn, err := connectNATS(ctx, "nats://"+strings.Join(c.hosts(), ",nats://"), options)
	if err != nil {
		return nil, err
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsPublisher{conn, stream}, nil
}

// connectNATS is nats.Connect, given up when ctx is done.
func connectNATS(ctx context.Context, servers string, options []nats.Option) (*nats.Conn, error) {
	type result struct {
		conn *nats.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := nats.Connect(servers, options...)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.conn != nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func (p *natsPublisher) Publish(ctx context.Context, m *Message, may func() bool) (string, error) {
	msg := nats.NewMsg(m.To)
	msg.Data = m.Payload
	for _, h := range m.Headers {
		msg.Header.Set(h[0], h[1])
	}
	if !may() {
		return "", ErrMayNot
	}
	ack, err := p.stream.PublishMsg(ctx, msg, jetstream.WithMsgID(m.ID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return "", natsError(m.To, err)
	}
	receipt := fmt.Sprintf("stream %s, sequence %d", ack.Stream, ack.Sequence)
	if ack.Duplicate {
		receipt += ", stored before"
	}
	return receipt, nil
}

// natsError says which errors leave no doubt.
func natsError(subject string, err error) error {
	var refused jetstream.JetStreamError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &Refused{Err: err, Final: true}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return &Refused{Err: fmt.Errorf("no stream takes the subject %q", subject)}
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return fmt.Errorf("not connected: %w: %w", err, job.ErrNotSent)
	case errors.As(err, &refused) && refused.APIError() != nil:
		return &Refused{Err: err}
	}
	return err
}

func (p *natsPublisher) Close() { p.conn.Close() }
