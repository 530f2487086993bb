package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Bounds of what outside workers may ask for.
const (
	defaultQueue = "default"
	defaultLease = 30 * time.Second
	minLease     = time.Second
	maxLease     = time.Hour
	maxWait      = 60 * time.Second
	maxClaims    = 100
	maxWorker    = 128
	maxError     = 1000 // bytes that are kept
	maxOutput    = 4096

	// waitGrace is how much longer than its wait a claim may take.
	waitGrace = 30 * time.Second
)

func (g *Gateway) queueRoutes() []*route {
	id := param{in: "path", name: "id", about: "The execution_id.", required: true}
	lease := param{in: "header", name: "Belfry-Lease", about: "The lease, if it is not in the body."}
	path := "/internal/executions/{id}"
	return []*route{
		{
			method: http.MethodPost, path: "/internal/executions/claim", name: "claimExecution", summary: "Claim executions of a queue, for an outside worker", handle: g.claim,
			details: "204 when none came within wait. What is claimed nobody else gets until it is completed or released, or its lease expires. An array when max is more than 1.",
			body:    api.ClaimRequest{}, bodyOptional: true, waits: true,
			answers: map[int]any{200: api.Claimed{}, 204: nil}, errors: []int{413, 415, 503},
		}, {
			method: http.MethodPost, path: path + "/complete", name: "completeExecution", summary: "Say how a claimed execution ended", handle: g.complete,
			details: "204 also for a repeat with the same lease and status. A failure is retried as the job's retry policy says. A success under a lease that has expired still counts when the execution is a dead letter by then, that lease was its last, and no replay is on the way.",
			params:  []param{id, lease}, body: api.CompleteRequest{},
			answers: map[int]any{204: nil}, errors: []int{404, 409, 413, 415, 503},
		}, {
			method: http.MethodPost, path: path + "/heartbeat", name: "extendLease", summary: "Keep a claimed execution for longer", handle: g.heartbeat,
			params: []param{id, lease}, body: api.HeartbeatRequest{}, bodyOptional: true,
			answers: map[int]any{200: api.Lease{}}, errors: []int{404, 409, 413, 415, 503},
		}, {
			method: http.MethodPost, path: path + "/release", name: "releaseExecution", summary: "Give a claimed execution back; the attempt does not count", handle: g.release,
			params: []param{id, lease}, body: api.ReleaseRequest{}, bodyOptional: true,
			answers: map[int]any{204: nil}, errors: []int{404, 409, 413, 415, 503},
		},
	}
}

// claim is POST /internal/executions/claim.
func (g *Gateway) claim(c *call) error {
	var req api.ClaimRequest
	if _, err := c.optionalBody(&req); err != nil {
		return err
	}
	claim, wait, err := c.claimOf(&req)
	if err != nil {
		return err
	}
	if g.cfg.Queues == nil {
		return refuse(api.CodeNotReady, "this node has no queues: claim at another one")
	}
	c.allow(wait + waitGrace)
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	defer context.AfterFunc(g.closing, cancel)()
	grants, err := g.cfg.Queues.Claim(ctx, claim, wait)
	switch {
	case c.r.Context().Err() != nil:
		g.giveBack(grants)
		return c.r.Context().Err()
	case len(grants) > 0:
		return c.granted(grants, req.Max != nil && *req.Max > 1)
	case g.closing.Err() != nil:
		return refuse(api.CodeNotReady, "this node is stopping: claim at another one")
	case err != nil && !errors.Is(err, job.ErrNoOwner):
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// allow moves the deadlines of the connection, which are meant for requests that
// do not wait. A server without them needs none.
func (c *call) allow(d time.Duration) {
	rc, until := http.NewResponseController(c.w), time.Now().Add(d)
	_ = rc.SetReadDeadline(until)
	_ = rc.SetWriteDeadline(until)
}

// claimOf checks what is asked for.
func (c *call) claimOf(req *api.ClaimRequest) (*belfryv1.Claim, time.Duration, error) {
	claim := &belfryv1.Claim{Queue: defaultQueue, Worker: c.peer(), LeaseMs: defaultLease.Milliseconds(), Max: 1}
	if req.Queue != nil {
		claim.Queue = *req.Queue
	}
	if req.Worker != nil {
		claim.Worker = *req.Worker
	}
	if req.Max != nil {
		claim.Max = int32(min(max(*req.Max, 0), maxClaims+1))
	}
	var wait time.Duration
	if req.Wait != nil {
		wait = time.Duration(*req.Wait)
	}
	if err := leaseTime("body.lease", req.Lease, &claim.LeaseMs); err != nil {
		return nil, 0, err
	}
	switch {
	case !job.QueueName(claim.Queue):
		return nil, 0, invalid("body.queue", "%q cannot be the name of a queue: use 1 to %d of A-Z a-z 0-9 . _ -", clip(claim.Queue), job.MaxActorName)
	case !oneLine(claim.Worker) || claim.Worker == "" || len(claim.Worker) > maxWorker:
		return nil, 0, invalid("body.worker", "it must be 1 to %d bytes of text on one line, without control characters", maxWorker)
	case claim.Max < 1 || claim.Max > maxClaims:
		return nil, 0, invalid("body.max", "%d is not from 1 to %d", *req.Max, maxClaims)
	case wait < 0 || wait > maxWait:
		return nil, 0, invalid("body.wait", "%v is not from 0s to %v: claim again when nothing came", wait, maxWait)
	}
	return claim, wait, nil
}

// leaseTime reads how long a lease is to last; absent: ms stays.
func leaseTime(location string, d *api.Duration, ms *int64) error {
	if d == nil {
		return nil
	}
	if v := time.Duration(*d); v < minLease || v > maxLease {
		return invalid(location, "%v is not from %v to %v: extend the lease by heartbeats if the work may take longer", v, minLease, maxLease)
	}
	*ms = time.Duration(*d).Milliseconds()
	return nil
}

func oneLine(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return false
		}
	}
	return true
}

// peer is the client's address.
func (c *call) peer() string {
	if addr, ok := clientAddr(c.r.RemoteAddr); ok {
		return addr.String()
	}
	return c.r.RemoteAddr
}

// granted answers with what was claimed. What cannot be sent is given back.
func (c *call) granted(grants []*belfryv1.Grant, many bool) error {
	out := make([]api.Claimed, len(grants))
	for i, grant := range grants {
		out[i] = viewGrant(grant)
	}
	var body any = out
	if !many {
		body = out[0]
	}
	if err := c.answer(http.StatusOK, body); err != nil {
		c.g.giveBack(grants)
		return err
	}
	if http.NewResponseController(c.w).Flush() != nil {
		c.g.giveBack(grants)
	}
	return nil
}

func viewGrant(g *belfryv1.Grant) api.Claimed {
	return api.Claimed{
		ExecutionID: g.GetExecutionId(), Lease: g.GetLease(), JobID: g.GetJobId(), Queue: g.GetQueue(), Key: g.GetKey(),
		ScheduledFor: job.Instant(g.GetScheduledFor()), Due: job.Instant(g.GetDue()),
		Attempt: int(g.GetAttempt()), MaxAttempts: int(g.GetMaxAttempts()), Payload: viewPayload(g.GetPayload()),
		LeaseDuration: millis(g.GetLeaseMs()), LeaseExpiresAt: job.Instant(g.GetExpiresAt()), Timeout: millis(g.GetTimeoutMs()),
	}
}

func millis(ms int64) api.Duration { return api.Duration(time.Duration(ms) * time.Millisecond) }

// giveBack releases what nobody received. What cannot be released expires.
func (g *Gateway) giveBack(grants []*belfryv1.Grant) {
	for _, grant := range grants {
		_, err := g.ask(context.Background(), &belfryv1.Command{
			Id: uuid.NewString(), JobId: grant.GetJobId(),
			Action: &belfryv1.Command_Release{Release: &belfryv1.Release{ExecutionId: grant.GetExecutionId(), Lease: grant.GetLease()}},
		}, condition{})
		if err != nil {
			g.cfg.Logger.Warn("give back what a client claimed that has gone: its lease must expire", "execution", grant.GetExecutionId(), "err", err)
		}
	}
}

// held is which execution a request is about, and under which lease.
type held struct {
	id    string
	ref   job.ExecutionRef
	lease string
}

// held reads the path and the lease, from the body or from the header.
func (c *call) held(lease string) (held, error) {
	id, err := c.pathID()
	if err != nil {
		return held{}, err
	}
	ref, ok := job.ParseExecutionID(id)
	if !ok {
		return held{}, invalid("path.id", "it is not the id of an execution: take it from the claim")
	}
	switch header := c.r.Header.Get("Belfry-Lease"); {
	case lease == "" && header == "":
		return held{}, invalid("body.lease", "it is missing: send the lease that the claim was answered with, here or as the header Belfry-Lease")
	case lease == "":
		lease = header
	case header != "" && header != lease:
		return held{}, invalid("header.Belfry-Lease", "it differs from the lease in the body: leave one of the two out")
	}
	if !plain(lease) || len(lease) > 64 {
		return held{}, invalid("body.lease", "no claim is answered with such a lease: send it as it was")
	}
	return held{id, ref, lease}, nil
}

func (h held) command() *belfryv1.Command {
	return &belfryv1.Command{Id: uuid.NewString(), JobId: h.ref.JobID}
}

// complete is POST /internal/executions/{id}/complete.
func (g *Gateway) complete(c *call) error {
	var req api.CompleteRequest
	body, err := c.body(false, typeJSON)
	if err != nil {
		return err
	}
	if err := decode(body, g.cfg.Limits.Depth, &req); err != nil {
		return err
	}
	h, err := c.held(req.Lease)
	if err != nil {
		return err
	}
	succeeded := req.Status == "succeeded" || req.Status == "success"
	if !succeeded && req.Status != "failed" && req.Status != "failure" {
		return invalid("body.status", "%q is neither succeeded nor failed", clip(req.Status))
	}
	cmd := h.command()
	cmd.Action = &belfryv1.Command_Complete{Complete: &belfryv1.Complete{
		ExecutionId: h.id, Lease: h.lease, Succeeded: succeeded, Error: head(req.Error, maxError), Output: tail(req.Output, maxOutput),
	}}
	_, err = g.ask(c.r.Context(), cmd, condition{})
	if err = h.problem(err); isCode(err, api.CodeLeaseLost) && g.completedBefore(c.r.Context(), h, succeeded) {
		err = nil
	}
	return c.noContent(err)
}

func (c *call) noContent(err error) error {
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// problem says of a job that is not there that the execution is not.
func (h held) problem(err error) error {
	if isCode(err, api.CodeJobNotFound) {
		return refuse(api.CodeNoExecution, "there is no execution %q: it never was, or its history has expired", h.id)
	}
	return err
}

func isCode(err error, code string) bool {
	var p *problem
	return errors.As(err, &p) && p.Code == code
}

// completedBefore tells whether the history has what a request says: then it is
// the repeat of one that was accepted, perhaps by a former owner.
func (g *Gateway) completedBefore(ctx context.Context, h held, succeeded bool) bool {
	want := string(job.AttemptFailed)
	if succeeded {
		want = string(job.AttemptSucceeded)
	}
	at := h.ref.At.UnixMilli()
	rows, err := g.cfg.Store.Attempts(ctx, g.partition(h.ref.JobID), job.DayOfMillis(at), h.ref.JobID, at, h.id)
	if err != nil {
		return false
	}
	for i := range rows {
		rec, err := decodeRecord(&rows[i])
		outcome := rec.GetStatus()
		if rows[i].Attempt == 0 {
			outcome = rec.GetOutcome()
		}
		if err == nil && rec.GetLease() == h.lease && outcome == want {
			return true
		}
	}
	return false
}

// heartbeat is POST /internal/executions/{id}/heartbeat.
func (g *Gateway) heartbeat(c *call) error {
	var req api.HeartbeatRequest
	if _, err := c.optionalBody(&req); err != nil {
		return err
	}
	h, err := c.held(req.Lease)
	if err != nil {
		return err
	}
	beat := &belfryv1.Heartbeat{JobId: h.ref.JobID, ExecutionId: h.id, Lease: h.lease}
	if err := leaseTime("body.extend", req.Extend, &beat.ExtendMs); err != nil {
		return err
	}
	answer, err := g.extend(c.r.Context(), beat)
	if err != nil {
		return h.problem(err)
	}
	return c.answer(http.StatusOK, api.Lease{ExecutionID: h.id, Lease: h.lease, LeaseExpiresAt: job.Instant(answer.GetExpiresAt())})
}

func (g *Gateway) extend(ctx context.Context, beat *belfryv1.Heartbeat) (*belfryv1.LeaseHeld, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limits.Ask)
	defer cancel()
	msg, err := g.cfg.Owners.Ask(ctx, g.partition(beat.GetJobId()), beat)
	if err != nil {
		return nil, g.unreachable(err)
	}
	answer, ok := msg.(*belfryv1.Answer)
	if !ok {
		return nil, fmt.Errorf("the owner answered a heartbeat with %T", msg)
	}
	if r := answer.GetRefusal(); r != nil {
		return nil, fromRefusal(r, beat.GetJobId(), condition{})
	}
	return answer.GetLeaseHeld(), nil
}

// release is POST /internal/executions/{id}/release.
func (g *Gateway) release(c *call) error {
	var req api.ReleaseRequest
	if _, err := c.optionalBody(&req); err != nil {
		return err
	}
	h, err := c.held(req.Lease)
	if err != nil {
		return err
	}
	cmd := h.command()
	cmd.Action = &belfryv1.Command_Release{Release: &belfryv1.Release{ExecutionId: h.id, Lease: h.lease}}
	_, err = g.ask(c.r.Context(), cmd, condition{})
	return c.noContent(h.problem(err))
}

// head is the first n bytes of a text, and tail the last, without half a
// character.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	at := len(text) - n
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}
