package execution

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	eventType = "belfry.execution.due"
	instant   = "2006-01-02T15:04:05.000Z"
)

// errRequest is a delivery that would not be one request, and whole, on the
// wire. Registration refuses all of them.
var errRequest = errors.New("the target is not a request that can be made")

// request is a request as it goes over the wire.
type request struct {
	bytes []byte
	bad   bool
}

// field adds a header.
func (r *request) field(name, value string) {
	r.bad = r.bad || !httpguts.ValidHeaderFieldValue(value)
	r.bytes = append(r.bytes, name...)
	r.bytes = append(r.bytes, ": "...)
	r.bytes = append(r.bytes, value...)
	r.bytes = append(r.bytes, "\r\n"...)
}

// request appends the request of a delivery to a buffer.
func (t *Target) request(buf []byte, s *sending, to *place, d *belfryv1.Delivery, epoch int64) ([]byte, error) {
	h := d.GetTarget().GetHttp()
	r := request{bytes: append(append(buf, h.GetMethod()...), to.line...), bad: !httpguts.ValidHeaderFieldName(h.GetMethod())}
	agent, kind := t.userAgent, ""
	if len(h.GetBody()) > 0 {
		kind = contentType(h.GetBody())
	}
	for name, value := range s.headers {
		if job.ReservedHeader(name) {
			continue
		}
		switch name = http.CanonicalHeaderKey(name); {
		case value == "" && (name == "User-Agent" || name == "Content-Type"):
			continue
		case name == "User-Agent":
			agent = ""
		case name == "Content-Type":
			kind = ""
		}
		r.bad = r.bad || !httpguts.ValidHeaderFieldName(name)
		r.field(name, value)
	}
	if agent != "" {
		r.field("User-Agent", agent)
	}
	if kind != "" {
		r.field("Content-Type", kind)
	}
	identify(r.field, d, epoch)
	r.field("Webhook-Id", d.GetKey())
	cloudEvent(r.field, "Ce-", t.source, d)
	if err := s.signers.sign(&r, d.GetKey(), h.GetBody(), time.Now()); err != nil {
		return r.bytes, err
	}
	if n := len(h.GetBody()); n > 0 || h.GetMethod() != http.MethodGet && h.GetMethod() != http.MethodHead && h.GetMethod() != http.MethodDelete {
		r.bytes = append(strconv.AppendInt(append(r.bytes, "Content-Length: "...), int64(n), 10), "\r\n"...)
	}
	if r.bad {
		return r.bytes, errRequest
	}
	return append(append(r.bytes, "\r\n"...), h.GetBody()...), nil
}

// identify names a delivery to a target: the same on each attempt, but for the
// attempt's number and the epoch.
func identify(field func(name, value string), d *belfryv1.Delivery, epoch int64) {
	field("Idempotency-Key", d.GetKey())
	field("Belfry-Execution-Id", d.GetExecutionId())
	field("Belfry-Job-Id", d.GetJobId())
	field("Belfry-Scheduled-For", scheduledFor(d))
	field("Belfry-Attempt", strconv.Itoa(int(d.GetAttempt())))
	field("Belfry-Epoch", strconv.FormatInt(epoch, 10))
}

// cloudEvent names a delivery as CloudEvents 1.0 does, in the binary mode of a
// transport that spells attributes with a prefix.
func cloudEvent(field func(name, value string), prefix, source string, d *belfryv1.Delivery) {
	field(prefix+"specversion", "1.0")
	field(prefix+"type", eventType)
	field(prefix+"source", source)
	field(prefix+"id", d.GetKey())
	field(prefix+"time", scheduledFor(d))
}

func scheduledFor(d *belfryv1.Delivery) string {
	return time.UnixMilli(d.GetScheduledFor()).UTC().Format(instant)
}

func contentType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return "application/octet-stream"
}
