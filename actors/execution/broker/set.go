package broker

import (
	"context"
	"fmt"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// dialers connect to a broker of each kind.
var dialers = map[string]func(context.Context, Config) (Publisher, error){
	NATS:  dialNATS,
	Kafka: dialKafka,
}

// Set is the brokers of a node by name. The nil Set has none.
type Set struct{ brokers map[string]*named }

type named struct {
	config Config
	// turn holds the connection, or nil, while nobody connects. A broker that
	// does not answer costs those who wait for it their own time only.
	turn chan Publisher
}

// NewSet makes a set; nothing is connected yet. Close it at the end.
func NewSet(configs map[string]Config) *Set {
	s := &Set{brokers: map[string]*named{}}
	for name, c := range configs {
		n := &named{config: c, turn: make(chan Publisher, 1)}
		n.turn <- nil
		s.brokers[name] = n
	}
	return s
}

// Kinds is the kind of each broker by name.
func (s *Set) Kinds() map[string]string {
	kinds := map[string]string{}
	if s != nil {
		for name, n := range s.brokers {
			kinds[name] = n.config.Kind()
		}
	}
	return kinds
}

// Publish hands a message to a broker; see Publisher. An error wraps
// job.ErrNotSent if the node has no such broker, or cannot connect.
func (s *Set) Publish(ctx context.Context, kind, name string, m *Message, may func() bool) (receipt string, err error) {
	if s == nil || s.brokers[name] == nil || s.brokers[name].config.Kind() != kind {
		return "", fmt.Errorf("this node has no %s broker %q: its operator names brokers in --brokers-file: %w", kind, name, job.ErrNotSent)
	}
	p, err := s.brokers[name].connected(ctx)
	if err != nil {
		return "", fmt.Errorf("connect to the %s broker %q: %w: %w", kind, name, err, job.ErrNotSent)
	}
	return p.Publish(ctx, m, may)
}

func (n *named) connected(ctx context.Context) (Publisher, error) {
	select {
	case p := <-n.turn:
		var err error
		if p == nil {
			p, err = dialers[n.config.Kind()](ctx, n.config)
		}
		n.turn <- p
		return p, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends all connections. Nothing may be published any more.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, n := range s.brokers {
		if p := <-n.turn; p != nil {
			p.Close()
		}
		n.turn <- nil
	}
}
