package broker

import (
	"context"
	"errors"
	"fmt"
)

// Message is what a broker is handed.
type Message struct {
	// To is the subject or the topic.
	To string
	// ID is the same for every repeat of the message. A broker that can, stores
	// one of them.
	ID string
	// Key keeps messages of one key in order, where a broker has keys.
	Key string
	// Headers, name and value, in the spelling of the broker.
	Headers [][2]string
	Payload []byte
}

// Publisher is a connection to one broker.
type Publisher interface {
	// Publish returns when the broker has acknowledged that the message is
	// stored, and where, in words. A *Refused says that it is not stored, and so
	// does an error that wraps job.ErrNotSent. After any other error, that of ctx
	// included, it may be. It repeats nothing.
	//
	// It asks may right before the message leaves, and returns ErrMayNot if that
	// says no.
	Publish(ctx context.Context, m *Message, may func() bool) (receipt string, err error)
	// Close ends the connection.
	Close()
}

// ErrMayNot is why a message was not sent by a node that may send nothing.
var ErrMayNot = errors.New("this node may send nothing")

// Refused is a message that the broker did not store.
type Refused struct {
	// Err is the broker's reason.
	Err error
	// Final says that another attempt cannot help.
	Final bool
}

func (r *Refused) Error() string { return fmt.Sprintf("the broker refused the message: %v", r.Err) }

func (r *Refused) Unwrap() error { return r.Err }
