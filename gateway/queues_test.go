package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// queueFunc is a Queues.
type queueFunc func(ctx context.Context, claim *belfryv1.Claim, wait time.Duration) ([]*belfryv1.Grant, error)

func (f queueFunc) Claim(ctx context.Context, claim *belfryv1.Claim, wait time.Duration) ([]*belfryv1.Grant, error) {
	return f(ctx, claim, wait)
}

// withGrants answers every claim so.
func withGrants(f queueFunc) func(*Config) { return func(c *Config) { c.Queues = f } }

const claimed = "a~1~20260301T120000.000Z"

func grantOf(payload string) *belfryv1.Grant {
	return &belfryv1.Grant{
		ExecutionId: claimed, JobId: "a", Queue: "emails", Lease: "1-7", Key: claimed, ScheduledFor: start.UnixMilli(), Due: start.UnixMilli(),
		Attempt: 2, MaxAttempts: 5, Payload: []byte(payload), LeaseMs: 30_000, ExpiresAt: start.Add(30 * time.Second).UnixMilli(), TimeoutMs: 3_600_000,
	}
}

func TestQueueTargets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for target, want := range map[string]string{
		`{"queue":"emails"}`:                                    `"target":{"queue":"emails"}`,
		`{"queue":{"name":"emails"}}`:                           `"target":{"queue":"emails"}`,
		`{"queue":{"name":"e.m_1-","payload":"as it is"}}`:      `"target":{"queue":{"name":"e.m_1-","payload":"as it is"}}`,
		`{"queue":{"name":"emails","payload":{ "a": [1, 2] }}}`: `"target":{"queue":{"name":"emails","payload":{"a":[1,2]}}}`,
		`{"queue":{"name":"emails","payload":null}}`:            `"target":{"queue":"emails"}`,
	} {
		r := b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":`+target+`}`).want(http.StatusCreated)
		if !strings.Contains(r.text, want) || !strings.Contains(r.text, `"timeout":"1h"`) {
			t.Errorf("%s became %s", target, r.text)
		}
	}
	for target, location := range map[string]string{
		`{"queue":""}`:         "body.target.queue.name",
		`{"queue":"no/slash"}`: "body.target.queue.name",
		`{"queue":"` + strings.Repeat("q", 129) + `"}`: "body.target.queue.name",
		`{"queue":5}`:           "body.target.queue",
		`{"queue":{"nam":"x"}}`: "body.target.queue.nam",
		`{"queue":"emails","http":{"url":"https://example.com"}}`:       "body.target",
		`{"queue":{"name":"q","payload":"` + longText(64<<10+1) + `"}}`: "body.target.queue.payload",
	} {
		b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":`+target+`}`).refused(location)
	}
	if got := b.all("/v1/jobs?target=e.m_"); len(got) != 1 {
		t.Errorf("%d jobs have a target with e.m_", len(got))
	}
	b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":{"queue":"emails"},"timeout":"24h"}`).want(http.StatusCreated)
	b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":{"queue":"emails"},"timeout":"25h"}`).refused("body.timeout")
	b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":{"queue":"emails"},"on_open_circuit":"wait"}`).want(http.StatusCreated)
	b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":{"queue":"emails"},"on_open_circuit":"fail"}`).refused("body.on_open_circuit")
}

func longText(n int) string { return strings.Repeat("x", n) }

func TestClaim(t *testing.T) {
	t.Parallel()
	var asked *belfryv1.Claim
	var waited time.Duration
	grants := []*belfryv1.Grant{grantOf(`{"a":1}`)}
	b := setup(t, withGrants(func(_ context.Context, c *belfryv1.Claim, wait time.Duration) ([]*belfryv1.Grant, error) {
		asked, waited = c, wait
		return grants, nil
	}))

	r := b.do("POST", "/internal/executions/claim", "").want(http.StatusOK)
	if asked.GetQueue() != "default" || asked.GetWorker() != "127.0.0.1" || asked.GetLeaseMs() != 30_000 || asked.GetMax() != 1 || waited != 0 {
		t.Errorf("asked for %v, waiting %v", asked, waited)
	}
	got := read[api.Claimed](r)
	if got.ExecutionID != claimed || got.Lease != "1-7" || got.JobID != "a" || got.Attempt != 2 || got.Key != claimed ||
		!got.ScheduledFor.Equal(start) || string(got.Payload) != `{"a":1}` || got.LeaseDuration.String() != "30s" || got.Timeout.String() != "1h" {
		t.Errorf("claimed %+v", got)
	}
	grants[0] = grantOf(`{}`)
	if got := read[api.Claimed](b.do("POST", "/internal/executions/claim", "").want(http.StatusOK)); string(got.Payload) != `{}` {
		t.Errorf("claimed %+v", got)
	}
	grants[0] = grantOf("no json")
	r = b.do("POST", "/internal/executions/claim", `{"queue":"emails","worker":"w 1","lease":"1m","wait":"20s","max":3}`).want(http.StatusOK)
	if asked.GetQueue() != "emails" || asked.GetWorker() != "w 1" || asked.GetLeaseMs() != 60_000 || asked.GetMax() != 3 || waited != 20*time.Second {
		t.Errorf("asked for %v, waiting %v", asked, waited)
	}
	if many := read[[]api.Claimed](r); len(many) != 1 || string(many[0].Payload) != `"no json"` {
		t.Errorf("claimed %+v", many)
	}
	grants = nil
	if r := b.do("POST", "/internal/executions/claim", `{}`).want(http.StatusNoContent); r.text != "" {
		t.Errorf("204 with a body: %s", r.text)
	}
}

func TestClaimsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, withGrants(func(context.Context, *belfryv1.Claim, time.Duration) ([]*belfryv1.Grant, error) {
		t.Error("it was asked for")
		return nil, nil
	}))
	for body, location := range map[string]string{
		`{"queue":""}`:                       "body.queue",
		`{"queue":"a b"}`:                    "body.queue",
		`{"worker":""}`:                      "body.worker",
		`{"worker":"a\nb"}`:                  "body.worker",
		`{"worker":"` + longText(129) + `"}`: "body.worker",
		`{"lease":"0s"}`:                     "body.lease",
		`{"lease":"999ms"}`:                  "body.lease",
		`{"lease":"2h"}`:                     "body.lease",
		`{"lease":30}`:                       "body.lease",
		`{"wait":"-1s"}`:                     "body.wait",
		`{"wait":"61s"}`:                     "body.wait",
		`{"max":0}`:                          "body.max",
		`{"max":-1}`:                         "body.max",
		`{"max":101}`:                        "body.max",
		`{"max":1.5}`:                        "body.max",
		`{"que":"x"}`:                        "body.que",
		`[]`:                                 "body",
	} {
		b.do("POST", "/internal/executions/claim", body).refused(location)
	}
	b.do("POST", "/internal/executions/claim?queue=x", `{}`).refused("query.queue")
	b.do("GET", "/internal/executions/claim", "").want(http.StatusMethodNotAllowed)
	none := setup(t)
	none.do("POST", "/internal/executions/claim", `{}`).problem(api.CodeNotReady)
}

// A client that goes away while it is granted something gives it back.
func TestWhatNobodyReceivesIsGivenBack(t *testing.T) {
	t.Parallel()
	ctx, gone := context.WithCancel(context.Background())
	b := setup(t, withGrants(func(ctx context.Context, _ *belfryv1.Claim, _ time.Duration) ([]*belfryv1.Grant, error) {
		gone()
		<-ctx.Done()
		return []*belfryv1.Grant{grantOf("x")}, nil
	}))
	released := make(chan *belfryv1.Release, 1)
	b.owners.before = func(msg proto.Message) error {
		if c, ok := msg.(*belfryv1.Command); ok && c.GetRelease() != nil && c.GetJobId() == "a" {
			released <- c.GetRelease()
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, "POST", b.srv.URL+"/internal/executions/claim", strings.NewReader(`{"wait":"30s"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := b.srv.Client().Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("answered with %d", resp.StatusCode)
	}
	if r := <-released; r.GetExecutionId() != claimed || r.GetLease() != "1-7" {
		t.Errorf("released %v", r)
	}
}

// A node that stops does not wait for claims that wait.
func TestCloseEndsClaims(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{})
	b := setup(t, withGrants(func(ctx context.Context, _ *belfryv1.Claim, _ time.Duration) ([]*belfryv1.Grant, error) {
		close(waiting)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	go func() {
		<-waiting
		b.gw.Close()
	}()
	b.do("POST", "/internal/executions/claim", `{"wait":"60s"}`).problem(api.CodeNotReady)
}

func TestTooManyClaimsWait(t *testing.T) {
	t.Parallel()
	waiting, end := make(chan struct{}), make(chan struct{})
	b := setup(t, func(c *Config) { c.Limits.Waiting = 1 }, withGrants(func(context.Context, *belfryv1.Claim, time.Duration) ([]*belfryv1.Grant, error) {
		close(waiting)
		<-end
		return nil, nil
	}))
	first := make(chan struct{})
	go func() {
		defer close(first)
		b.do("POST", "/internal/executions/claim", `{"wait":"60s"}`)
	}()
	<-waiting
	b.do("POST", "/internal/executions/claim", `{}`).problem(api.CodeOverloaded)
	b.do("GET", "/v1/jobs", "").want(http.StatusOK) // others are counted apart
	close(end)
	<-first
}

func TestComplete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var asked *belfryv1.Command
	var refuse *belfryv1.Refusal
	b.owners.refuse = func(c *belfryv1.Command) *belfryv1.Refusal { asked = c; return refuse }
	b.create(`"job_id":"a"`)
	path := "/internal/executions/" + claimed + "/complete"
	for status, succeeded := range map[string]bool{"succeeded": true, "success": true, "failed": false, "failure": false} {
		b.do("POST", path, `{"status":"`+status+`","lease":"1-7","error":"e","output":"o"}`).want(http.StatusNoContent)
		if c := asked.GetComplete(); asked.GetJobId() != "a" || c.GetExecutionId() != claimed || c.GetLease() != "1-7" || c.GetSucceeded() != succeeded || c.GetError() != "e" || c.GetOutput() != "o" {
			t.Errorf("%s became %v", status, asked)
		}
	}
	b.do("POST", path, `{"status":"failed"}`, "Belfry-Lease", "1-8").want(http.StatusNoContent)
	if asked.GetComplete().GetLease() != "1-8" {
		t.Errorf("the header became %v", asked)
	}
	long := strings.Repeat("ä", 5000)
	b.do("POST", path, `{"status":"failed","lease":"1-7","error":"x`+long+`","output":"`+long+`y"}`).want(http.StatusNoContent)
	if c := asked.GetComplete(); c.GetError() != "x"+long[:998] || c.GetOutput() != long[:4094]+"y" {
		t.Errorf("kept are %d bytes of the error and %d of the output", len(c.GetError()), len(c.GetOutput()))
	}

	asked = nil
	for body, location := range map[string]string{
		`{"lease":"1-7"}`:                         "body.status",
		`{"status":"done","lease":"1-7"}`:         "body.status",
		`{"status":"failed"}`:                     "body.lease",
		`{"status":"failed","lease":""}`:          "body.lease",
		`{"status":"failed","lease":"1 7"}`:       "body.lease",
		`{"status":"failed","lease":7}`:           "body.lease",
		`{"status":"failed","lease":"1-7","x":1}`: "body.x",
	} {
		b.do("POST", path, body).refused(location)
	}
	b.do("POST", path, `{"status":"failed","lease":"1-7"}`, "Belfry-Lease", "1-8").refused("header.Belfry-Lease")
	b.do("POST", "/internal/executions/nonsense/complete", `{"status":"failed","lease":"1-7"}`).refused("path.id")
	if asked != nil {
		t.Errorf("the owner was asked for %v", asked)
	}

	refuse = &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_LEASE_LOST, Message: "it expired"}
	if p := b.do("POST", path, `{"status":"failed","lease":"1-7"}`).problem(api.CodeLeaseLost); !strings.Contains(p.Detail, "it expired") {
		t.Errorf("the detail is %q", p.Detail)
	}
	refuse = &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_NOT_FOUND}
	b.do("POST", path, `{"status":"failed","lease":"1-7"}`).problem(api.CodeNoExecution)
	refuse = &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_CANCELLED}
	b.do("POST", path, `{"status":"failed","lease":"1-7"}`).problem(api.CodeCancelled)
	refuse = nil
	b.owners.before = func(proto.Message) error { return job.ErrNoOwner }
	b.do("POST", path, `{"status":"failed","lease":"1-7"}`).problem(api.CodeOwnerAway)
}

// A repeat that reaches another owner than the first is known by the history.
func TestCompletionsAreKnownByTheHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	line := func(attempt int32, r *belfryv1.Record) persistence.HistoryRow {
		return persistence.HistoryRow{
			Day: job.DayOfMillis(start.UnixMilli()), JobID: "a", ScheduledFor: start.UnixMilli(), ExecutionID: claimed,
			Attempt: attempt, Decision: int64(attempt) + 1, Epoch: 1, Record: b.owners.encode(r),
		}
	}
	b.owners.edit("a", func(*belfryv1.Job) {},
		line(0, &belfryv1.Record{Status: "succeeded", Lease: "1-8"}),
		line(1, &belfryv1.Record{Status: "unknown", Lease: "1-6"}),
		line(2, &belfryv1.Record{Status: "failed", Lease: "1-7"}),
		line(3, &belfryv1.Record{Status: "succeeded", Lease: "1-8"}))
	b.owners.refuse = func(*belfryv1.Command) *belfryv1.Refusal {
		return &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_LEASE_LOST}
	}
	for body, want := range map[string]int{
		`{"status":"failed","lease":"1-6"}`:    http.StatusConflict,
		`{"status":"succeeded","lease":"1-6"}`: http.StatusConflict,
		`{"status":"failed","lease":"1-7"}`:    http.StatusNoContent,
		`{"status":"succeeded","lease":"1-7"}`: http.StatusConflict,
		`{"status":"succeeded","lease":"1-8"}`: http.StatusNoContent,
		`{"status":"succeeded","lease":"1-9"}`: http.StatusConflict,
	} {
		b.do("POST", "/internal/executions/"+claimed+"/complete", body).want(want)
	}
	b.do("POST", "/internal/executions/"+claimed+"/release", `{"lease":"1-8"}`).problem(api.CodeLeaseLost)
}

func TestHeartbeatAndRelease(t *testing.T) {
	t.Parallel()
	var beat *belfryv1.Heartbeat
	var answer proto.Message = &belfryv1.Answer{Outcome: &belfryv1.Answer_LeaseHeld{LeaseHeld: &belfryv1.LeaseHeld{ExpiresAt: start.UnixMilli()}}}
	b := setup(t, func(c *Config) {
		c.Owners = askFunc{c.Owners, func(m proto.Message) (proto.Message, error) {
			if h, ok := m.(*belfryv1.Heartbeat); ok {
				beat = h
				return answer, nil
			}
			return nil, errPass
		}}
	})
	b.create(`"job_id":"a"`)
	path := "/internal/executions/" + claimed
	got := read[api.Lease](b.do("POST", path+"/heartbeat", `{"lease":"1-7","extend":"10s"}`).want(http.StatusOK))
	if beat.GetJobId() != "a" || beat.GetExecutionId() != claimed || beat.GetLease() != "1-7" || beat.GetExtendMs() != 10_000 || !got.LeaseExpiresAt.Equal(start) {
		t.Errorf("%v was answered by %+v", beat, got)
	}
	b.do("POST", path+"/heartbeat", "", "Belfry-Lease", "1-7").want(http.StatusOK)
	if beat.GetExtendMs() != 0 {
		t.Errorf("without extend: %v", beat)
	}
	b.do("POST", path+"/heartbeat", `{}`).refused("body.lease")
	b.do("POST", path+"/heartbeat", `{"lease":"1-7","extend":"0s"}`).refused("body.extend")
	b.do("POST", path+"/heartbeat", `{"lease":"1-7","extend":"61m"}`).refused("body.extend")
	answer = refusal(belfryv1.Refusal_CODE_LEASE_LOST)
	b.do("POST", path+"/heartbeat", `{"lease":"1-7"}`).problem(api.CodeLeaseLost)
	answer = refusal(belfryv1.Refusal_CODE_CANCELLED)
	b.do("POST", path+"/heartbeat", `{"lease":"1-7"}`).problem(api.CodeCancelled)
	b.do("POST", path+"/release", `{"lease":"1-7"}`).want(http.StatusNoContent)
	b.do("POST", path+"/release", "").refused("body.lease")
}

// errPass passes a message on.
var errPass = errors.New("pass on")

// askFunc answers some messages itself.
type askFunc struct {
	Owners
	ask func(proto.Message) (proto.Message, error)
}

func (a askFunc) Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error) {
	answer, err := a.ask(msg)
	if errors.Is(err, errPass) {
		return a.Owners.Ask(ctx, partition, msg)
	}
	return answer, err
}

// What a worker holds is shown with its execution.
func TestAClaimedExecutionIsShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.owners.edit("a", func(j *belfryv1.Job) {
		j.State.InFlight = append(j.State.InFlight, &belfryv1.InFlight{
			ExecutionId: claimed, ScheduledFor: start.UnixMilli(), Due: start.UnixMilli(), Attempt: 2,
			Lease: &belfryv1.Lease{Worker: "w1", GrantedAt: start.UnixMilli()},
		})
	})
	e := read[api.ExecutionDetail](b.do("GET", "/v1/executions/"+claimed, "").want(http.StatusOK))
	if e.Status != "running" || e.Worker != "w1" || e.AttemptCount != 2 || e.LeaseExpiresAt != nil {
		t.Errorf("shown as %+v", e.Execution)
	}
	b.owners.running = []*belfryv1.Description_Running{{
		ExecutionId: claimed, Attempt: 2, SentAt: start.UnixMilli(), Worker: "w1", LeaseExpiresAt: start.Add(time.Minute).UnixMilli(),
	}}
	e = read[api.ExecutionDetail](b.do("GET", "/v1/executions/"+claimed, "").want(http.StatusOK))
	if e.LeaseExpiresAt == nil || !e.LeaseExpiresAt.Equal(start.Add(time.Minute)) || len(e.Attempts) != 1 || e.Attempts[0].Worker != "w1" {
		t.Errorf("shown as %+v", e)
	}
}
