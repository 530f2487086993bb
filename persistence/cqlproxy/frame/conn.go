package frame

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

// Conn is a conversation with a server, one request at a time.
type Conn struct {
	net net.Conn
	in  *bufio.Reader
}

// Dial connects and speaks OPTIONS and STARTUP. A server that answers both is
// ready for statements, or, when it wants a password, for its clients.
func Dial(ctx context.Context, host string) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return Over(ctx, nc)
}

// Over begins a conversation on a connection, such as one under TLS, and owns it
// from then on. A server that asks for a login has answered, too.
func Over(ctx context.Context, nc net.Conn) (*Conn, error) {
	c := &Conn{net: nc, in: bufio.NewReader(nc)}
	for _, ask := range []struct {
		frame Frame
		wants []Opcode
	}{
		{Options(), []Opcode{OpSupported}},
		{Startup(), []Opcode{OpReady, OpAuthenticate}},
	} {
		if err := c.expect(ctx, ask.frame, ask.wants); err != nil {
			nc.Close()
			return nil, err
		}
	}
	return c, nil
}

func (c *Conn) expect(ctx context.Context, f Frame, wants []Opcode) error {
	a, err := c.Do(ctx, f)
	if err != nil {
		return err
	}
	for _, w := range wants {
		if a.Opcode == w {
			return nil
		}
	}
	return fmt.Errorf("the answer to %s is %s", f.Opcode, a.Opcode)
}

// Do sends a request and waits for its answer. An ERROR answer is an *Error
// beside the frame; after any other error, or when ctx ended, the conversation
// is over.
func (c *Conn) Do(ctx context.Context, f Frame) (Frame, error) {
	stop := context.AfterFunc(ctx, func() { c.net.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := f.Write(c.net); err != nil {
		return Frame{}, told(ctx, err)
	}
	for {
		a, err := Read(c.in)
		if err != nil {
			return Frame{}, told(ctx, err)
		}
		if !a.Answer || a.Stream != f.Stream {
			continue // the answer to something that was given up, or an event
		}
		if e := ParseError(a); e != nil {
			return a, e
		}
		return a, nil
	}
}

// told prefers the reason that the caller gave.
func told(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close ends the conversation.
func (c *Conn) Close() error { return c.net.Close() }
