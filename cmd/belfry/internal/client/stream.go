package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Import sends jobs, one JobRequest a line, and passes on what became of each
// line. It may be repeated: a line is an upsert.
func (c *Client) Import(ctx context.Context, lines []byte, result func(api.ImportResult) error) error {
	resp, err := c.send(ctx, call{method: http.MethodPost, path: "/v1/jobs:import", body: lines, header: http.Header{"Content-Type": {"application/x-ndjson"}}, changes: false})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			var r api.ImportResult
			if err := json.Unmarshal(text, &r); err != nil {
				return fmt.Errorf("read the server's answer to an import: %w", err)
			}
			if err := result(r); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return c.unreachable(ctx, err)
		}
	}
}

// Follower receives the events of a server.
type Follower struct {
	JobID string                     // only of this job; "" is all
	Type  string                     // only of this type; one that ends in . is all that begin so
	Event func(Doc[api.Event]) error // an error ends the following
	Lost  func()                     // events were missed: the server no longer holds them
	Retry func(err error, in time.Duration)
}

func (f Follower) query() url.Values {
	q := url.Values{}
	if f.JobID != "" {
		q.Set("job_id", f.JobID)
	}
	if f.Type != "" {
		q.Set("type", f.Type)
	}
	return q
}

// Pauses between attempts to connect again.
const (
	firstReconnect = 250 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

// Follow passes on events from now on, or from after the event of that id, and
// connects again where it was when the connection breaks. It returns the error
// of the first connection, that of the Follower, or the context's.
func (c *Client) Follow(ctx context.Context, lastID string, f Follower) error {
	connected, pause := false, firstReconnect
	for {
		before := lastID
		err := c.follow(ctx, &lastID, &connected, f)
		var refused *refusal
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return refused.error
		case !connected:
			return err
		}
		if lastID != before {
			pause = firstReconnect
		}
		if f.Retry != nil {
			f.Retry(err, pause)
		}
		if !wait(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, lastReconnect)
	}
}

// refusal is the Follower's own error, not one of the connection.
type refusal struct{ error }

// follow reads one connection to its end.
func (c *Client) follow(ctx context.Context, lastID *string, connected *bool, f Follower) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if *lastID != "" {
		header.Set("Last-Event-ID", *lastID)
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/events", header: header, query: f.query()})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	*connected = true
	return readEvents(resp.Body, func(m message) error {
		if m.id != "" {
			*lastID = m.id
		}
		switch {
		case m.event == "reset":
			if f.Lost != nil {
				f.Lost()
			}
			return nil
		case m.data == "": // only says where the stream is
			return nil
		}
		d, err := decode[api.Event]([]byte(m.data))
		if err == nil {
			err = f.Event(d)
		}
		if err != nil {
			return &refusal{err}
		}
		return nil
	})
}

// message is one server-sent event.
type message struct{ id, event, data string }

// readEvents parses text/event-stream. It ends with io.EOF, a read error, or
// the error of handle.
func readEvents(r io.Reader, handle func(message) error) error {
	var m message
	var data []string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if m == (message{}) && len(data) == 0 {
				continue
			}
			m.data = strings.Join(data, "\n")
			if err := handle(m); err != nil {
				return err
			}
			m, data = message{}, nil
		case field == "id":
			m.id = value
		case field == "event":
			m.event = value
		case field == "data":
			data = append(data, value)
		}
	}
}
