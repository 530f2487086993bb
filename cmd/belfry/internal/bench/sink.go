package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Sink is the target that all deliveries go to. It reads headers and takes
// them down; a body is small and is left to the connection to pass over.
type Sink struct {
	url    string
	ledger atomic.Pointer[Ledger]
	owners atomic.Pointer[owners]
	hold   atomic.Pointer[chan struct{}]
	server *http.Server
	done   chan struct{}
}

// StartSink listens on a free loopback port.
func StartSink() (*Sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start sink: %w", err)
	}
	s := &Sink{url: "http://" + l.Addr().String() + "/hook", done: make(chan struct{})}
	s.server = &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(l) // ends with Stop
	}()
	return s, nil
}

// URL is where deliveries are sent.
func (s *Sink) URL() string { return s.url }

// Use makes receipts go to a ledger.
func (s *Sink) Use(l *Ledger) { s.ledger.Store(l) }

// Hold lets requests wait for their answer until release, which may be called
// more than once.
func (s *Sink) Hold() (release func()) {
	held := make(chan struct{})
	s.hold.Store(&held)
	return sync.OnceFunc(func() { s.hold.Store(nil); close(held) })
}

// Stop closes the listener and the connections.
func (s *Sink) Stop() {
	_ = s.server.Close() // nothing is lost that was to be kept
	<-s.done
}

// receive stamps a request as early as it can: at the first line of the
// handler, when its headers have been read.
func (s *Sink) receive(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	receipt := Receipt{JobID: header(r, "Belfry-Job-Id"), ScheduledFor: header(r, "Belfry-Scheduled-For"), Key: header(r, "Idempotency-Key"), At: at}
	if l := s.ledger.Load(); l != nil {
		l.Record(receipt)
	}
	if o := s.owners.Load(); o != nil {
		receipt.Epoch, _ = strconv.ParseInt(header(r, "Belfry-Epoch"), 10, 64) // 0 is none
		o.record(receipt)
	}
	if held := s.hold.Load(); held != nil {
		select {
		case <-*held:
		case <-r.Context().Done():
			return
		}
	}
	w.Header()["Date"] = nil
	w.WriteHeader(http.StatusNoContent)
}

// header reads a header whose name is in canonical form already.
func header(r *http.Request, name string) string {
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// settle waits until every delivery of a ledger has arrived and then for the
// quiet time, in which doubles would come. It gives up when nothing has arrived
// for the patience.
func settle(ctx context.Context, l *Ledger, patience, quiet time.Duration) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	seen, since := l.Arrived(), time.Now()
	for complete := false; !complete; {
		select {
		case <-l.Complete():
			complete = true
		case <-ctx.Done():
			return ctx.Err()
		case now := <-ticker.C:
			if n := l.Arrived(); n != seen {
				seen, since = n, now
			}
			if now.Sub(since) > patience {
				return nil // what is missing is counted
			}
		}
	}
	return pause(ctx, quiet)
}

// pause waits for a time or the end of the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
