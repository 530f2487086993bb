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
	t.identify(&r, d, epoch)
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

// identify adds the headers that tell a target which delivery this is. They
// are the same on each attempt, but for the attempt's number and the epoch.
func (t *Target) identify(r *request, d *belfryv1.Delivery, epoch int64) {
	at := time.UnixMilli(d.GetScheduledFor()).UTC().Format(instant)
	r.field("Idempotency-Key", d.GetKey())
	r.field("Webhook-Id", d.GetKey())
	r.field("Belfry-Execution-Id", d.GetExecutionId())
	r.field("Belfry-Job-Id", d.GetJobId())
	r.field("Belfry-Scheduled-For", at)
	r.field("Belfry-Attempt", strconv.Itoa(int(d.GetAttempt())))
	r.field("Belfry-Epoch", strconv.FormatInt(epoch, 10))
	r.field("Ce-Specversion", "1.0")
	r.field("Ce-Type", eventType)
	r.field("Ce-Source", t.source)
	r.field("Ce-Id", d.GetKey())
	r.field("Ce-Time", at)
}

func contentType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return "application/octet-stream"
}
