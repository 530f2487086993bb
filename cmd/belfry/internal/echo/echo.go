// Package echo is a target to try jobs against: it answers with what it
// received, or, when asked to, with a failure.
package echo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Paths of the target.
const (
	OK   = "/ok"   // 200, with the request as JSON
	Fail = "/fail" // 500, always

	Flaky = "/flaky" // 500 at the first attempt of an execution, then as OK
)

// maxBody is how much of a body is sent back.
const maxBody = 4 << 10

// Target is a running echo target.
type Target struct {
	url    string
	server *http.Server
	done   chan struct{}
}

// Start listens on an address. When that is taken, any free port of the same
// host serves.
func Start(addr string) (*Target, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		host, _, splitErr := net.SplitHostPort(addr)
		if splitErr != nil {
			return nil, fmt.Errorf("start echo target: %w", err)
		}
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return nil, fmt.Errorf("start echo target: %w", err)
		}
	}
	t := &Target{
		url:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute},
		done:   make(chan struct{}),
	}
	go func() {
		defer close(t.done)
		_ = t.server.Serve(l) // ends with Stop
	}()
	return t, nil
}

// URL is the target's base URL.
func (t *Target) URL() string { return t.url }

// Stop lets running requests end and closes the listener.
func (t *Target) Stop(ctx context.Context) error {
	err := t.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = t.server.Close()
	}
	<-t.done
	return err
}

// echoed is the answer of OK.
type echoed struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body,omitzero"`
}

// Handler serves the paths of a target.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(Fail, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this target always fails", http.StatusInternalServerError)
	})
	mux.HandleFunc(Flaky, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Belfry-Attempt") == "1" {
			http.Error(w, "this target fails at first", http.StatusInternalServerError)
			return
		}
		answer(w, r)
	})
	mux.HandleFunc("/", answer)
	return mux
}

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	e := echoed{Method: r.Method, Path: r.URL.Path, Headers: map[string]string{}, Body: string(body)}
	for name, values := range r.Header {
		e.Headers[name] = strings.Join(values, ", ")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(e) // the caller is gone: nothing to tell it
}
