package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// peer sends to one address: a queue, and one goroutine with one connection. It
// lives as long as its connection, or until the address may be dialled again.
type peer struct {
	out     *outbox
	address string
	wake    chan struct{} // something waits, or the end was asked for
	again   chan struct{} // holds a token when the address may be dialled again at once
	ended   chan struct{} // closed by finish
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu    sync.Mutex
	queue []letter
	bytes int       // of queue
	state condition // of the peer, which is never full as such
	final bool      // finish was called
}

// Why a peer ended its own connection.
var (
	errNoAnswer = fmt.Errorf("no answer within %s", connectTimeout)
	errStuck    = fmt.Errorf("the peer took nothing for %s", sendTimeout)
	errStopped  = errors.New("this process stopped")
	errOver     = errors.New("the stream is over")
)

// condition is what becomes of a letter that is put to a peer.
type condition int

const (
	taken condition = iota // it waits: the peer connects, or is connected
	full                   // too much waits
	down                   // no connection, and too early to dial again
	gone                   // the address has another peer by now
)

func newPeer(o *outbox, address string) *peer {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &peer{out: o, address: address, wake: make(chan struct{}, 1), again: make(chan struct{}, 1), ended: make(chan struct{}), ctx: ctx, cancel: cancel}
}

func (p *peer) put(l letter) condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := l.size()
	switch {
	case p.state != taken:
		return p.state
	case p.bytes+size > p.out.queue:
		return full
	}
	p.queue, p.bytes = append(p.queue, l), p.bytes+size
	p.signal()
	return taken
}

func (p *peer) signal() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// take removes the next batch from the queue. It says whether it is the end:
// nothing waits, and nothing more will be sent.
func (p *peer) take() (letters []letter, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := cut(p.queue)
	letters, p.queue = p.queue[:n:n], p.queue[n:]
	for _, l := range letters {
		p.bytes -= l.size()
	}
	if len(p.queue) == 0 {
		p.queue = nil // the array goes with the batch
	}
	return letters, n == 0 && p.final
}

// become changes the state and returns what waited.
func (p *peer) become(c condition) []letter {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.queue
	p.state, p.queue, p.bytes = c, nil, 0
	return left
}

// run is the life of a peer.
func (p *peer) run() {
	defer p.cancel(nil)
	began := time.Now()
	if err := p.connection(); err != nil {
		p.out.log.Info("no connection to another process", "address", p.address, "error", err)
	}
	p.out.lose(lostUnreachable, p.become(down)...)
	p.rest(redialAfter - time.Since(began))
	p.out.remove(p)
	p.become(gone) // what asks now finds the next peer
}

// redial ends the rest of a peer: another process is at its address now.
func (p *peer) redial() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != down {
		return
	}
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// rest keeps the address from being dialled again too soon.
func (p *peer) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.again:
	case <-p.ended:
	}
}

// finish asks for the end: what waits is sent first, within the time.
func (p *peer) finish(grace time.Duration) {
	p.mu.Lock()
	p.final = true
	p.mu.Unlock()
	close(p.ended)
	p.signal()
	time.AfterFunc(grace, func() { p.cancel(errStopped) })
}

// connection connects, sends until the stream is over or the end was asked for,
// and returns why it ended.
func (p *peer) connection() error {
	if p.out.plain && !isLoopback(p.address) {
		return errors.New("the address is not loopback, and there is no TLS")
	}
	conn, err := grpc.NewClient("passthrough:///"+p.address, p.out.dial...)
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := p.connect(conn)
	if err != nil {
		p.out.metrics.connects.WithLabelValues("failed").Inc()
		return p.because(err)
	}
	p.out.metrics.connects.WithLabelValues("ok").Inc()
	p.out.metrics.connected.Inc()
	defer p.out.metrics.connected.Dec()
	p.out.log.Info("connected to another process", "address", p.address)

	over := make(chan error, 1)
	go func() {
		over <- untilOver(stream)
		p.cancel(errOver) // a send that is stuck ends with it
	}()
	p.sendAll(stream)
	return p.because(<-over)
}

// because puts our own reason beside gRPC's, which knows only of a context.
func (p *peer) because(err error) error {
	if cause := context.Cause(p.ctx); cause != nil && cause != errOver {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// connect opens the stream and waits until the peer has answered on it. Its time
// covers the dial, TLS, and the peer's look at our label.
func (p *peer) connect(conn *grpc.ClientConn) (remote.Remoting_ReceiveClient, error) {
	timer := time.AfterFunc(connectTimeout, func() { p.cancel(errNoAnswer) })
	defer timer.Stop()
	stream, err := remote.NewRemotingClient(conn).Receive(metadata.AppendToOutgoingContext(p.ctx, labelKey, p.out.label))
	if err != nil {
		return nil, err
	}
	hello := &remote.ServerConnection{SystemId: p.out.system.ID, Address: p.out.system.Address()}
	// An error of the send says only that the stream is over; Recv says why.
	_ = stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{
		ConnectRequest: &remote.ConnectRequest{ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: hello}},
	}})
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if answer.GetConnectResponse() == nil {
		return nil, fmt.Errorf("the peer answered %T", answer.MessageType)
	}
	return stream, nil
}

// untilOver reads until the stream is over: the peer sends nothing on it, except
// that it leaves. A stream that ended well gives no error.
func untilOver(stream remote.Remoting_ReceiveClient) error {
	m, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the peer sent %T", m.MessageType)
}

// sendAll sends what is queued until the stream is over, or until nothing waits
// after the end was asked for: then it closes its side, and the peer answers
// when it has read everything.
func (p *peer) sendAll(stream remote.Remoting_ReceiveClient) {
	stuck := time.AfterFunc(sendTimeout, func() { p.cancel(errStuck) })
	stuck.Stop()
	defer stuck.Stop()
	for p.ctx.Err() == nil {
		letters, end := p.take()
		switch {
		case end:
			_ = stream.CloseSend() // gRPC's never fails
			return
		case len(letters) == 0:
			select {
			case <-p.wake:
				runtime.Gosched() // others that are about to send share the batch
			case <-p.ctx.Done():
			}
			continue
		}
		stuck.Reset(sendTimeout)
		err := stream.Send(newBatch(letters))
		stuck.Stop()
		if err != nil {
			p.out.lose(lostUnreachable, letters...)
			return
		}
		p.out.metrics.sent.Add(float64(len(letters)))
	}
}
