package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// village is a cluster of one node, whose owners keep jobs in memory and run
// those that are triggered, and of one client.
type village struct {
	*Client
	post     *post
	services *Services

	mu      sync.Mutex
	jobs    map[string]*belfryv1.Job
	answers map[string]*belfryv1.Answer // by command id
	runs    []*belfryv1.ExecutionView   // newest first
	numbers int64
}

func newVillage(p *post, kinds Kinds) *village {
	at, node := p.open("10.0.0.1:1"), memberAt("node", "10.0.0.1:1")
	c := p.open("10.0.0.2:1")
	v := &village{post: p, services: NewServices(at.System()), jobs: map[string]*belfryv1.Job{}, answers: map[string]*belfryv1.Answer{}}
	said := &belfryv1.Presence{Partitions: 16}
	for partition := range int32(16) {
		_, got := owner(at, partition, 1)
		said.Owned = append(said.Owned, &belfryv1.Owned{Partition: partition, Epoch: 1})
		go func() {
			for r := range got {
				r.reply(v.answer(r.msg))
			}
		}()
	}
	h, err := startKinds(c, kinds, func(any) {})
	if err != nil {
		panic(err)
	}
	v.services.Viewed(&View{Members: []Member{node, memberAt("client", "10.0.0.2:1", kinds.Names()...)}})
	v.Client = &Client{routes: NewRoutes(c.System(), 0), policy: job.DevPolicy(), leave: h.close}
	v.routes.Heard(node, said)
	return v
}

func (v *village) answer(msg proto.Message) proto.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch m := msg.(type) {
	case *belfryv1.Command:
		if v.answers[m.GetId()] == nil {
			v.answers[m.GetId()] = v.act(m)
		}
		return v.answers[m.GetId()]
	case *belfryv1.GetJob:
		return v.show(m.GetJobId())
	case *belfryv1.ListExecutions:
		return v.list(m)
	}
	return nil
}

func (v *village) show(id string) *belfryv1.Answer {
	if v.jobs[id] == nil {
		return refused(belfryv1.Refusal_CODE_NOT_FOUND)
	}
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Job{Job: proto.Clone(v.jobs[id]).(*belfryv1.Job)}}
}

func (v *village) act(c *belfryv1.Command) *belfryv1.Answer {
	id, j := c.GetJobId(), v.jobs[c.GetJobId()]
	v.numbers++
	switch a := c.GetAction().(type) {
	case *belfryv1.Command_Register:
		r := a.Register
		switch {
		case j != nil && r.GetMode() == belfryv1.Register_MODE_CREATE:
			return refused(belfryv1.Refusal_CODE_EXISTS)
		case j == nil && r.GetMode() == belfryv1.Register_MODE_REPLACE:
			return refused(belfryv1.Refusal_CODE_NOT_FOUND)
		case r.GetIfRevision() != 0 && r.GetIfRevision() != j.GetState().GetRevision():
			return refused(belfryv1.Refusal_CODE_REVISION)
		}
		status := job.Active
		if r.GetPaused().GetPaused() {
			status = job.Paused
		}
		v.jobs[id] = &belfryv1.Job{JobId: id, Status: string(status), Spec: r.GetSpec(), State: &belfryv1.JobState{Generation: 1, Revision: v.numbers}, NextRun: 1_000}
		out := v.show(id)
		out.Created = j == nil
		return out
	case *belfryv1.Command_Delete:
		if j == nil {
			return refused(belfryv1.Refusal_CODE_NOT_FOUND)
		}
		delete(v.jobs, id)
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Deleted{Deleted: &belfryv1.Deleted{}}}
	case *belfryv1.Command_Pause:
		j.Status, j.State.StatusReason = string(job.Paused), a.Pause.GetReason()
	case *belfryv1.Command_Resume:
		j.Status, j.State.StatusReason = string(job.Active), ""
	case *belfryv1.Command_Trigger:
		return v.run(j)
	case *belfryv1.Command_Backfill:
		b := a.Backfill
		j.State.Backfills = append(j.State.Backfills, &belfryv1.Backfill{
			Id: c.GetId(), From: b.GetFrom(), To: b.GetTo(), Next: b.GetFrom(), Total: 3, Concurrency: b.GetConcurrency(), NewKey: b.GetNewKey(),
		})
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Backfill{Backfill: j.State.Backfills[0]}}
	case *belfryv1.Command_CancelBackfill:
		for _, b := range j.State.Backfills {
			if b.GetId() == a.CancelBackfill.GetId() {
				b.Reason, b.EndedAt, b.Next, b.Cancelled = "cancelled on request", 9_000, 0, 3
				return &belfryv1.Answer{Outcome: &belfryv1.Answer_Backfill{Backfill: b}}
			}
		}
		return refused(belfryv1.Refusal_CODE_NOT_FOUND)
	}
	return v.show(id)
}

// run performs an execution and notes what came of it.
func (v *village) run(j *belfryv1.Job) *belfryv1.Answer {
	id := fmt.Sprintf("%s~1~m%d", j.GetJobId(), len(v.runs)+1)
	to := j.GetSpec().GetTarget().GetActor()
	e := &belfryv1.ExecutionView{ExecutionId: id, ScheduledFor: int64(len(v.runs)+1) * 1_000, Status: string(job.Succeeded), Attempts: 1, Trigger: "manual"}
	p, err := v.services.Perform(context.Background(), &belfryv1.Perform{
		ExecutionId: id, Key: id, JobId: j.GetJobId(), Attempt: 1, Kind: to.GetKind(), Identity: to.GetIdentity(), Payload: to.GetPayload(),
	})
	if err != nil || !p.GetSucceeded() {
		e.Status, e.LastError = string(job.Failed), p.GetError()
	}
	v.runs = append([]*belfryv1.ExecutionView{e}, v.runs...)
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: &belfryv1.Execution{ExecutionId: id, ScheduledFor: e.GetScheduledFor()}}}
}

func (v *village) list(m *belfryv1.ListExecutions) *belfryv1.ExecutionList {
	if v.jobs[m.GetJobId()] == nil {
		return &belfryv1.ExecutionList{Refusal: refused(belfryv1.Refusal_CODE_NOT_FOUND).GetRefusal()}
	}
	out := &belfryv1.ExecutionList{}
	for _, e := range v.runs {
		switch {
		case m.GetBefore() != nil && e.GetScheduledFor() >= m.GetBefore().GetScheduledFor():
		case len(out.GetExecutions()) == int(m.GetLimit()):
			out.Next = &belfryv1.Place{ScheduledFor: out.Executions[m.GetLimit()-1].GetScheduledFor()}
			return out
		default:
			out.Executions = append(out.Executions, e)
		}
	}
	return out
}

func mailSpec() job.Spec {
	return job.Spec{Schedule: job.Timing{Expr: "0 6 * * *"}, Target: job.Target{Actor: &job.ActorTarget{Kind: "mail", Identity: "x"}}}
}

func TestClientKeepsJobs(t *testing.T) {
	v, ctx := newVillage(newPost(t), Kinds{}), t.Context()
	made, err := v.Register(ctx, "a", mailSpec())
	if err != nil || !made.Created || made.ID != "a" || made.Status != job.Active || made.Spec.Timeout != job.DefaultTimeout || made.NextRun != time.UnixMilli(1_000).UTC() {
		t.Errorf("registered: %+v, %v", made, err)
	}
	again, err := v.Register(ctx, "a", mailSpec())
	if err != nil || again.Created || again.Revision == made.Revision {
		t.Errorf("registered again: %+v, %v", again, err)
	}
	if _, err := v.Create(ctx, "a", mailSpec()); !errors.Is(err, job.ErrExists) {
		t.Errorf("created again: %v", err)
	}
	spec := mailSpec()
	spec.Description, spec.Paused = "new", true
	if _, err := v.Update(ctx, "a", made.Revision, spec); !errors.Is(err, job.ErrConflict) {
		t.Errorf("updated at an old revision: %v", err)
	}
	if _, err := v.Update(ctx, "b", 0, spec); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("updated what is not there: %v", err)
	}
	if j, err := v.Update(ctx, "a", again.Revision, spec); err != nil || j.Spec.Description != "new" || j.Status != job.Paused {
		t.Errorf("updated: %+v, %v", j, err)
	}
	if j, err := v.Resume(ctx, "a", ""); err != nil || j.Status != job.Active {
		t.Errorf("resumed: %+v, %v", j, err)
	}
	if j, err := v.Pause(ctx, "a", "holidays"); err != nil || j.Status != job.Paused || j.Reason != "holidays" {
		t.Errorf("paused: %+v, %v", j, err)
	}
	if j, err := v.Get(ctx, "a"); err != nil || j.Reason != "holidays" || j.Spec.Target.Actor.Kind != "mail" {
		t.Errorf("read: %+v, %v", j, err)
	}
	if err := v.Delete(ctx, "a"); err != nil {
		t.Error(err)
	}
	if _, err := v.Get(ctx, "a"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("read after its end: %v", err)
	}
	if _, _, err := v.Executions(ctx, "a", 1, Place{}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("listed after its end: %v", err)
	}
}

// TestClientRefuses what the cluster would refuse, before it is sent.
func TestClientRefuses(t *testing.T) {
	v := newVillage(newPost(t), Kinds{})
	spec := mailSpec()
	spec.Schedule.Expr = "every day"
	var bad *job.Invalid
	if _, err := v.Register(t.Context(), "a", spec); !errors.As(err, &bad) {
		t.Errorf("a bad schedule: %v", err)
	}
	if _, err := v.Register(t.Context(), "a/b", mailSpec()); !errors.As(err, &bad) {
		t.Errorf("a bad id: %v", err)
	}
	if err := v.Delete(t.Context(), ".."); !errors.As(err, &bad) {
		t.Errorf("a bad id: %v", err)
	}
	if v.numbers != 0 {
		t.Errorf("%d commands were sent", v.numbers)
	}
}

// TestClientIsAnsweredOnce: answers are lost, and each command still has effect
// once.
func TestClientIsAnsweredOnce(t *testing.T) {
	v := newVillage(newPost(t), Kinds{})
	lost := 0
	v.post.fate = func(_ string, _ *actor.PID, msg proto.Message) int {
		if _, ok := msg.(*belfryv1.Answer); ok && lost == 0 {
			lost++
			return 0
		}
		return 1
	}
	j, err := v.Create(t.Context(), "a", mailSpec())
	if err != nil || !j.Created || lost != 1 || v.numbers != 1 {
		t.Errorf("%+v, %v; %d answers lost, %d commands carried out", j, err, lost, v.numbers)
	}
}

func TestClientTriggersAndLists(t *testing.T) {
	v, ctx := newVillage(newPost(t), Kinds{Handlers: map[string]Handler{"mail": func(_ context.Context, e Execution) error {
		if e.ID == "a~1~m2" {
			return Final(errors.New("no such address"))
		}
		return nil
	}}}), t.Context()
	if _, err := v.Register(ctx, "a", mailSpec()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if id, err := v.Trigger(ctx, "a"); err != nil || id != fmt.Sprintf("a~1~m%d", i+1) {
			t.Errorf("triggered: %s, %v", id, err)
		}
	}
	first, place, err := v.Executions(ctx, "a", 2, Place{})
	if err != nil || len(first) != 2 || first[0].ExecutionID != "a~1~m3" || first[1].Status != job.Failed || first[1].Error != "no such address" || place == (Place{}) {
		t.Errorf("listed: %+v, %v, %v", first, place, err)
	}
	rest, place, err := v.Executions(ctx, "a", 2, place)
	if err != nil || len(rest) != 1 || rest[0].ExecutionID != "a~1~m1" || place != (Place{}) || !rest[0].ScheduledFor.Equal(time.Unix(1, 0)) {
		t.Errorf("listed: %+v, %v, %v", rest, place, err)
	}
}

// TestClientBackfills: a range runs again, is seen in its job, and is cancelled.
func TestClientBackfills(t *testing.T) {
	v, ctx := newVillage(newPost(t), Kinds{}), t.Context()
	if _, err := v.Register(ctx, "a", mailSpec()); err != nil {
		t.Fatal(err)
	}
	r := Range{From: time.Unix(1, 1).UTC(), To: time.Unix(5, 0).UTC(), Concurrency: 2, NewKey: true}
	b, err := v.Backfill(ctx, "a", r)
	if r.From = time.Unix(1, 1e6).UTC(); err != nil || b.ID == "" || b.Range != r || b.Total != 3 || !b.Next.Equal(r.From) || !b.EndedAt.IsZero() {
		t.Errorf("backfill: %+v, %v", b, err)
	}
	if j, err := v.Get(ctx, "a"); err != nil || len(j.Backfills) != 1 || j.Backfills[0] != b {
		t.Errorf("read: %+v, %v", j, err)
	}
	done, err := v.CancelBackfill(ctx, "a", b.ID)
	if err != nil || done.Reason == "" || done.EndedAt != time.Unix(9, 0).UTC() || !done.Next.IsZero() || done.Cancelled != 3 {
		t.Errorf("cancelled: %+v, %v", done, err)
	}
	if _, err := v.CancelBackfill(ctx, "a", "none"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("cancelled what is not there: %v", err)
	}
	sent := v.numbers
	var bad *job.Invalid
	if _, err := v.Backfill(ctx, "a", Range{From: time.Unix(1, 0), Concurrency: job.MaxBackfillConcurrency + 1}); !errors.As(err, &bad) || bad.Problems[0].Field != "concurrency" || v.numbers != sent {
		t.Errorf("too many at once: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for code, want := range map[belfryv1.Refusal_Code]error{
		belfryv1.Refusal_CODE_NOT_FOUND: job.ErrNotFound, belfryv1.Refusal_CODE_EXISTS: job.ErrExists,
		belfryv1.Refusal_CODE_REVISION: job.ErrConflict, belfryv1.Refusal_CODE_STATE: job.ErrConflict,
		belfryv1.Refusal_CODE_NOT_OWNER: job.ErrNoOwner, belfryv1.Refusal_CODE_IN_FLIGHT: job.ErrNoOwner,
		belfryv1.Refusal_CODE_BUSY: job.ErrUnavailable, belfryv1.Refusal_CODE_UNAVAILABLE: job.ErrUnavailable,
	} {
		if err := refusalError(&belfryv1.Refusal{Code: code, Message: "why"}); !errors.Is(err, want) {
			t.Errorf("%s: %v", code, err)
		}
	}
	var bad *job.Invalid
	if err := refusalError(&belfryv1.Refusal{Code: belfryv1.Refusal_CODE_INVALID, Field: "timeout"}); !errors.As(err, &bad) || bad.Problems[0].Field != "timeout" {
		t.Errorf("%v", err)
	}
	if err := refusalError(&belfryv1.Refusal{Code: 99}); err == nil {
		t.Error("a refusal of a newer node is no error")
	}
	if r := runOf(&belfryv1.ExecutionView{Range: &belfryv1.SlotRange{First: 1, Last: 2, Count: 2}}); r.Count != 2 || r.First.IsZero() || r.Last.IsZero() {
		t.Errorf("run %+v", r)
	}
}
