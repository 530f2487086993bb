package gateway

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// eventBatch is how many events are written between two looks at the ring.
const eventBatch = 256

// Close ends the event streams and the claims that wait, so that the server can
// shut down.
func (g *Gateway) Close() {
	g.close()
	g.ring.close()
}

// watchEvents is GET /v1/events: server-sent events from now on, or from after
// Last-Event-ID. A place that is not known gets `event: reset` first: some
// events may have been missed, so whoever keeps a picture reads it anew.
func (g *Gateway) watchEvents(c *call) error {
	only := eventFilter{jobID: c.query.Get("job_id"), kind: c.query.Get("type")}
	if only.jobID != "" {
		if bad := job.CheckID(only.jobID); bad != nil {
			return fromInvalid("query", bad)
		}
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	c.w.WriteHeader(http.StatusOK)
	g.metrics.streams.Inc()
	defer g.metrics.streams.Dec()
	s := &eventStream{c: c, out: &lines{c: c, rc: http.NewResponseController(c.w)}, only: only}
	s.begin(c.r.Header.Get("Last-Event-ID"))
	s.follow()
	return nil
}

// eventFilter selects events; a type ends in . to select all that begin so.
type eventFilter struct {
	jobID, kind string
}

func (f eventFilter) wants(e *belfryv1.Event) bool {
	if f.jobID != "" && e.GetJobId() != f.jobID {
		return false
	}
	return f.kind == "" || e.GetType() == f.kind || strings.HasSuffix(f.kind, ".") && strings.HasPrefix(e.GetType(), f.kind)
}

// eventStream is one client.
type eventStream struct {
	c    *call
	out  *lines
	only eventFilter
	from uint64
	buf  []byte
}

// begin finds the place to start at and tells it to the client.
func (s *eventStream) begin(lastID string) {
	ring := s.c.g.ring
	s.from = ring.end()
	s.buf = append(s.buf, "retry: 2000\n"...)
	if lastID != "" {
		after, known := ring.after(lastID)
		if known {
			s.from = after
		} else {
			s.buf = append(s.buf, "event: reset\ndata: {\"reason\":\"the Last-Event-ID is not known here: events may have been missed\"}\n"...)
		}
	}
	s.buf = append(s.buf, "id: "+ring.id(s.from-1)+"\n\n"...)
}

// follow writes events until the client goes, falls behind, or the node stops.
func (s *eventStream) follow() {
	g := s.c.g
	beat := time.NewTicker(g.cfg.Limits.Heartbeat)
	defer beat.Stop()
	events := make([]*belfryv1.Event, 0, eventBatch)
	for {
		batch, more, lost, closed := g.ring.read(s.from, events, eventBatch)
		if lost {
			g.metrics.dropped.Inc()
			return
		}
		s.append(batch)
		if len(s.buf) > 0 {
			s.out.write(s.buf)
			s.buf = s.buf[:0]
		}
		if errors.Is(s.out.err, os.ErrDeadlineExceeded) {
			g.metrics.dropped.Inc()
		}
		if closed && len(batch) == 0 || s.out.err != nil {
			return
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-more:
		case <-beat.C:
			s.buf = append(s.buf, ":\n\n"...)
		case <-s.c.r.Context().Done():
			return
		}
	}
}

func (s *eventStream) append(batch []*belfryv1.Event) {
	for _, e := range batch {
		if s.only.wants(e) {
			s.buf = appendEvent(s.buf, s.c.g.ring.id(s.from), e)
		}
		s.from++
	}
}

func appendEvent(buf []byte, id string, e *belfryv1.Event) []byte {
	data, err := encode(viewEvent(e))
	if err != nil {
		return buf // an event that cannot be shown
	}
	buf = append(buf, "id: "+id+"\nevent: "...)
	buf = append(buf, e.GetType()...)
	buf = append(buf, "\ndata: "...)
	return append(append(buf, data...), "\n\n"...)
}

func viewEvent(e *belfryv1.Event) api.Event {
	return api.Event{
		Type: e.GetType(), JobID: e.GetJobId(), ExecutionID: e.GetExecutionId(), BackfillID: e.GetBackfill(), ScheduledFor: instant(e.GetScheduledFor()),
		At: job.Instant(e.GetAt()), Attempt: int(e.GetAttempt()), LatenessMS: e.GetLatenessMs(), Reason: e.GetReason(), CatchUp: e.GetCatchUp(), Worker: e.GetWorker(), Host: e.GetHost(),
	}
}
