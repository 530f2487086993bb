package execution

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// counted is a server that says when it has accepted a connection, and counts
// requests.
type counted struct {
	*httptest.Server
	accepted chan struct{}
	requests atomic.Int32
}

func serveCounted(t *testing.T, secure bool) *counted {
	t.Helper()
	s := &counted{accepted: make(chan struct{}, 10)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.requests.Add(1)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.accepted <- struct{}{}
		}
	}
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// The fence falls between the connection and the first byte of the request: on
// a new connection, after a handshake, and on one that was used before.
func TestTheFenceIsAskedRightBeforeTheSend(t *testing.T) {
	for name, c := range map[string]struct{ secure, kept bool }{
		"new": {}, "new with TLS": {secure: true}, "kept": {kept: true}, "kept with TLS": {secure: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveCounted(t, c.secure)
			client := target(t, func(cfg *TargetConfig) {
				if c.secure {
					roots := x509.NewCertPool()
					roots.AddCert(s.Certificate())
					cfg.TLS = &tls.Config{RootCAs: roots}
				}
			})
			d, before := delivery(s.URL), int32(0)
			if c.kept {
				if r := client.Deliver(t.Context(), d, 1, unbroken); r.GetOutcome() != succeededOutcome {
					t.Fatalf("first: %v", r)
				}
				before = 1
			}
			asked := 0
			r := client.Deliver(t.Context(), d, 1, func() bool {
				if asked++; !c.kept || asked > 1 {
					<-s.accepted // it is connected, and still not allowed
				}
				return false
			})
			if r != nil || asked != 1 || s.requests.Load() != before {
				t.Errorf("result %v, asked %d times, %d requests", r, asked, s.requests.Load())
			}
			if r := client.Deliver(t.Context(), d, 1, unbroken); r.GetOutcome() != succeededOutcome || s.requests.Load() != before+1 {
				t.Errorf("afterwards: %v, %d requests", r, s.requests.Load())
			}
		})
	}
}

// kestra-io/kestra#17129: a call that is cut before it was sent is no attempt.
func TestACutCallThatWasNotSentHasNoResult(t *testing.T) {
	s := serveCounted(t, false)
	client := target(t)
	ctx, cut := context.WithCancelCause(t.Context())
	r := client.Deliver(ctx, delivery(s.URL), 1, func() bool {
		cut(errCut)
		<-ctx.Done()
		return true
	})
	// The cut may come after the write all the same: then it may have arrived.
	if r != nil && r.GetOutcome() != unknownOutcome {
		t.Errorf("result %v", r)
	}
	if r := client.Deliver(ctx, delivery(s.URL), 1, unbroken); r != nil || s.requests.Load() > 1 {
		t.Errorf("after the cut: %v", r)
	}
}
