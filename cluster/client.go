package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/cluster/wire"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// ClientConfig is how another service joins a cluster. Join is required.
type ClientConfig struct {
	// Name of this process among the members. "": host name and process id.
	Name string
	// Cluster is the name that all members share. "": DefaultCluster.
	Cluster string
	// Join names nodes: host, host:port of their gossip, or a DNS name of many.
	Join []string

	// Listen is where the nodes reach the actors of this process, and Gossip
	// where they reach its gossip. "": a free port of 127.0.0.1.
	Listen, Gossip string
	// Advertise and AdvertiseGossip are how they reach them, if otherwise.
	Advertise, AdvertiseGossip string

	TLS      wire.TLS // needed off loopback
	Keys     [][]byte // of gossip; see ParseKeys
	Insecure bool     // allows plaintext off loopback

	// Kinds are the actors that this process hosts for the targets of jobs.
	Kinds Kinds
	// Policy says which addresses the HTTP targets of jobs may have. It is the
	// nodes' own that counts when a job is due.
	Policy job.AddressPolicy

	Log *slog.Logger // nil: slog.Default
}

// DefaultCluster is the name of a cluster that was given none.
const DefaultCluster = "belfry"

// Client works with a cluster from another service of it. It registers, changes
// and runs jobs by messages to their owners, and its Kinds get executions.
//
// Each method waits for the answer until its context ends (10 s without a
// deadline), also while partitions change their owners. A command has an id,
// made before it is sent for the first time, so however often it has to be sent
// it has effect once. Errors: job.ErrNoOwner and job.ErrUnavailable (nobody
// could promise anything: call again), job.ErrNotFound, job.ErrExists,
// job.ErrConflict, and *job.Invalid with every problem of a spec.
type Client struct {
	routes *Routes
	policy job.AddressPolicy
	leave  func(context.Context) error
}

// Connect joins a cluster as a client. It returns when the process is a member;
// the first call may still wait for the nodes to say what they own. ctx bounds
// only this call. Close has to follow.
func Connect(ctx context.Context, cfg ClientConfig) (*Client, error) {
	cfg.setDefaults()
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return cfg.Log }))
	p, err := Join(ctx, cfg.process(actors.NewFactory(system, cfg.Log, actors.NewMetrics(nil))))
	if err != nil {
		system.Shutdown()
		return nil, err
	}
	leave := func(ctx context.Context) error {
		defer system.Shutdown()
		return p.Leave(ctx)
	}
	return &Client{routes: p.Routes, policy: cfg.Policy, leave: leave}, nil
}

func (c *ClientConfig) setDefaults() {
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	orDefault(&c.Cluster, DefaultCluster)
	orDefault(&c.Listen, "127.0.0.1:0")
	orDefault(&c.Gossip, "127.0.0.1:0")
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// clientEvery is how often a client says that it is there. It owns nothing that
// others would miss.
const clientEvery = 5 * time.Second

func (c *ClientConfig) process(props *actors.Factory) ProcessConfig {
	return ProcessConfig{
		Self: Member{
			Node: c.Name, Incarnation: uuid.New(), Started: time.Now().UnixMilli(),
			Roles: Roles{ClientRole}, Format: messages.Format,
		},
		Wire:     wire.Config{Listen: c.Listen, Advertise: c.Advertise, Cluster: c.Cluster, TLS: c.TLS, Insecure: c.Insecure, Log: c.Log},
		Members:  MembersConfig{Listen: c.Gossip, Advertise: c.AdvertiseGossip, Join: c.Join, Label: c.Cluster, Keys: c.Keys, Insecure: c.Insecure, Log: c.Log},
		Presence: PresenceConfig{Every: clientEvery, Status: func() Status { return Status{} }},
		Kinds:    c.Kinds, Props: props, Log: c.Log,
		Failed: func(err error) { c.Log.Error("the client is no longer part of the cluster", "err", err) },
	}
}

// Close leaves the cluster: it takes no more executions, and lets those that run
// end until ctx does.
func (c *Client) Close(ctx context.Context) error { return c.leave(ctx) }

// Job is a job as its owner sees it.
type Job struct {
	ID         string
	Status     job.Status
	Reason     string // why it is paused or in error
	Spec       job.Spec
	Generation int64 // number of its registration
	Revision   int64 // number of its spec
	NextRun    time.Time
	Backfills  []Backfill // those that go on, and a few that have ended
	Created    bool       // by the call that returned it
}

// Register creates a job, or replaces the spec of one that is there, so that a
// service may register its jobs at each start.
func (c *Client) Register(ctx context.Context, id string, spec job.Spec) (Job, error) {
	return c.register(ctx, "register", id, spec, belfryv1.Register_MODE_UNSPECIFIED, 0)
}

// Create creates a job; job.ErrExists when there is one.
func (c *Client) Create(ctx context.Context, id string, spec job.Spec) (Job, error) {
	return c.register(ctx, "create", id, spec, belfryv1.Register_MODE_CREATE, 0)
}

// Update replaces the spec of a job; job.ErrNotFound when there is none,
// job.ErrConflict when it is not at the revision. Revision 0: at any.
func (c *Client) Update(ctx context.Context, id string, revision int64, spec job.Spec) (Job, error) {
	return c.register(ctx, "update", id, spec, belfryv1.Register_MODE_REPLACE, revision)
}

func (c *Client) register(ctx context.Context, verb, id string, spec job.Spec, mode belfryv1.Register_Mode, revision int64) (Job, error) {
	spec = spec.Normalize()
	if err := spec.Validate(c.policy); err != nil {
		return Job{}, fmt.Errorf("%s job %s: %w", verb, id, err)
	}
	r := &belfryv1.Register{Spec: messages.Spec(spec), Mode: mode, IfRevision: revision}
	if spec.Paused {
		r.Paused = &belfryv1.Paused{Paused: true}
	}
	answer, err := c.command(ctx, verb, id, &belfryv1.Command{Action: &belfryv1.Command_Register{Register: r}})
	return jobOf(answer), err
}

// Delete ends a job. Its executions stay readable.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := c.command(ctx, "delete", id, &belfryv1.Command{Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
	return err
}

// Pause stops a job's schedule until Resume.
func (c *Client) Pause(ctx context.Context, id, reason string) (Job, error) {
	answer, err := c.command(ctx, "pause", id, &belfryv1.Command{Action: &belfryv1.Command_Pause{Pause: &belfryv1.Pause{Reason: reason}}})
	return jobOf(answer), err
}

// Resume lets a paused job go on with its next slot.
func (c *Client) Resume(ctx context.Context, id, reason string) (Job, error) {
	answer, err := c.command(ctx, "resume", id, &belfryv1.Command{Action: &belfryv1.Command_Resume{Resume: &belfryv1.Resume{Reason: reason}}})
	return jobOf(answer), err
}

// Trigger runs a job now, beside its schedule. It returns the execution's id.
func (c *Client) Trigger(ctx context.Context, id string) (string, error) {
	answer, err := c.command(ctx, "trigger", id, &belfryv1.Command{Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	return answer.GetExecution().GetExecutionId(), err
}

// Get reads a job.
func (c *Client) Get(ctx context.Context, id string) (Job, error) {
	answer, err := c.ask(ctx, "read", id, &belfryv1.GetJob{JobId: id})
	return jobOf(answer), err
}

func (c *Client) command(ctx context.Context, verb, id string, cmd *belfryv1.Command) (*belfryv1.Answer, error) {
	cmd.Id, cmd.JobId, cmd.Keyed = uuid.NewString(), id, true
	return c.ask(ctx, verb, id, cmd)
}

func (c *Client) ask(ctx context.Context, verb, id string, msg proto.Message) (*belfryv1.Answer, error) {
	m, err := c.send(ctx, id, msg)
	answer, ok := m.(*belfryv1.Answer)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("the owner answered %T", m)
	case answer.GetRefusal() != nil:
		err = refusalError(answer.GetRefusal())
	default:
		return answer, nil
	}
	return nil, fmt.Errorf("%s job %s: %w", verb, id, err)
}

func (c *Client) send(ctx context.Context, id string, msg proto.Message) (proto.Message, error) {
	if bad := job.CheckID(id); bad != nil {
		return nil, bad
	}
	return c.routes.AskJob(ctx, id, msg)
}

// refusalError is an owner's no, as the decision that it leaves to the caller.
func refusalError(r *belfryv1.Refusal) error {
	switch r.GetCode() {
	case belfryv1.Refusal_CODE_NOT_FOUND:
		return job.ErrNotFound
	case belfryv1.Refusal_CODE_EXISTS:
		return job.ErrExists
	case belfryv1.Refusal_CODE_INVALID:
		return &job.Invalid{Problems: []job.Problem{{Field: r.GetField(), Message: r.GetMessage()}}}
	case belfryv1.Refusal_CODE_REVISION, belfryv1.Refusal_CODE_STATE:
		return fmt.Errorf("%w: %s", job.ErrConflict, r.GetMessage())
	case belfryv1.Refusal_CODE_NOT_OWNER, belfryv1.Refusal_CODE_IN_FLIGHT:
		return fmt.Errorf("%w: %s", job.ErrNoOwner, r.GetMessage())
	case belfryv1.Refusal_CODE_UNAVAILABLE, belfryv1.Refusal_CODE_BUSY:
		return fmt.Errorf("%w: %s", job.ErrUnavailable, r.GetMessage())
	}
	return errors.New("refused: " + r.GetMessage())
}

func jobOf(a *belfryv1.Answer) Job {
	j := a.GetJob()
	if j == nil {
		return Job{}
	}
	out := Job{
		ID: j.GetJobId(), Status: job.Status(j.GetStatus()), Reason: j.GetState().GetStatusReason(), Spec: messages.FromSpec(j.GetSpec()),
		Generation: j.GetState().GetGeneration(), Revision: j.GetState().GetRevision(),
		NextRun: job.Instant(j.GetNextRun()), Created: a.GetCreated(),
	}
	for _, b := range j.GetState().GetBackfills() {
		out.Backfills = append(out.Backfills, backfillOf(b))
	}
	return out
}

// Run is an execution of a job, or with Count > 1 consecutive slots that share a
// fate, as a list shows it.
type Run struct {
	ExecutionID  string
	ScheduledFor time.Time
	Status       job.ExecutionStatus
	Reason       string
	Trigger      string // schedule, manual or catch_up
	Attempts     int    // that were begun
	Due          time.Time
	SentAt       time.Time // of the first attempt; of a running one, the present attempt
	FinishedAt   time.Time
	Error        string // of the last failed attempt

	First, Last time.Time // slots, with Count
	Count       int64
}

// Place is where a list was left. The zero value is its beginning, the newest
// execution.
type Place struct{ at *belfryv1.Place }

// Executions lists the executions of a job, newest first: at most limit of them
// (1 to 1,000), older than a place. The place that it returns is for the next
// call, and is zero when there are no more.
func (c *Client) Executions(ctx context.Context, id string, limit int, before Place) ([]Run, Place, error) {
	m, err := c.send(ctx, id, &belfryv1.ListExecutions{JobId: id, Limit: int32(min(max(limit, 1), 1000)), Before: before.at})
	list, ok := m.(*belfryv1.ExecutionList)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("the owner answered %T", m)
	case list.GetRefusal() != nil:
		err = refusalError(list.GetRefusal())
	}
	if err != nil {
		return nil, Place{}, fmt.Errorf("list executions of job %s: %w", id, err)
	}
	runs := make([]Run, len(list.GetExecutions()))
	for i, e := range list.GetExecutions() {
		runs[i] = runOf(e)
	}
	return runs, Place{list.GetNext()}, nil
}

func runOf(e *belfryv1.ExecutionView) Run {
	r := Run{
		ExecutionID: e.GetExecutionId(), ScheduledFor: job.Instant(e.GetScheduledFor()), Status: job.ExecutionStatus(e.GetStatus()),
		Reason: e.GetReason(), Trigger: e.GetTrigger(), Attempts: int(e.GetAttempts()), Due: job.Instant(e.GetDue()),
		SentAt: job.Instant(e.GetSentAt()), FinishedAt: job.Instant(e.GetFinishedAt()), Error: e.GetLastError(), Count: 1,
	}
	if s := e.GetRange(); s.GetCount() > 1 {
		r.First, r.Last, r.Count = job.Instant(s.GetFirst()), job.Instant(s.GetLast()), s.GetCount()
	}
	return r
}
