package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const testPartitions = 16

// owners is a small owner of every partition: the protocol of commands over a
// real store, without a clock of its own and without firing anything.
type owners struct {
	t     testing.TB
	store persistence.Store
	now   func() time.Time

	mu       sync.Mutex
	fences   map[int32]persistence.Fence
	number   int64
	commands map[string]int // how often each command id came
	running  []*belfryv1.Description_Running
	waiting  string
	// before is called with each message, outside the lock; an error is the answer.
	before func(msg proto.Message) error
	// refuse answers each command that it returns something for.
	refuse func(cmd *belfryv1.Command) *belfryv1.Refusal
}

func newOwners(t testing.TB, store persistence.Store, now func() time.Time) *owners {
	return &owners{t: t, store: store, now: now, fences: map[int32]persistence.Fence{}, commands: map[string]int{}}
}

func (o *owners) Partitions() int { return testPartitions }

func (o *owners) Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error) {
	if o.before != nil {
		switch err := o.before(msg); err.(type) {
		case nil:
		case *inFlightError:
			return refusal(belfryv1.Refusal_CODE_IN_FLIGHT), nil
		default:
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // an owner commits whether or not somebody still waits
	switch m := msg.(type) {
	case *belfryv1.Command:
		return o.commit(ctx, partition, m)[0], nil
	case *belfryv1.Commands:
		return &belfryv1.Answers{Answers: o.commit(ctx, partition, m.GetCommands()...)}, nil
	case *belfryv1.Describe:
		return &belfryv1.Description{Running: o.running, Waiting: o.waiting}, nil
	}
	return nil, fmt.Errorf("unexpected %T", msg)
}

// change is the effect of one command.
type change struct {
	rows []persistence.Row
}

// commit answers commands in order; each sees what those before it did.
func (o *owners) commit(ctx context.Context, partition int32, cmds ...*belfryv1.Command) []*belfryv1.Answer {
	answers := make([]*belfryv1.Answer, len(cmds))
	for i, cmd := range cmds {
		if got := job.PartitionOf(cmd.GetJobId(), testPartitions); got != partition {
			o.t.Errorf("command for %q was sent to partition %d, want %d", cmd.GetJobId(), partition, got)
		}
		o.commands[cmd.GetId()]++
		c := &change{}
		answers[i] = o.once(ctx, c, cmd)
		o.write(ctx, partition, c)
	}
	return answers
}

// once answers a command, or repeats what it was answered before.
func (o *owners) once(ctx context.Context, c *change, cmd *belfryv1.Command) *belfryv1.Answer {
	if o.refuse != nil {
		if r := o.refuse(cmd); r != nil {
			return &belfryv1.Answer{CommandId: cmd.GetId(), Outcome: &belfryv1.Answer_Refusal{Refusal: r}}
		}
	}
	side, item := job.SideSliceOffset+job.SliceOf(cmd.GetJobId(), testPartitions), persistence.CommandItem(cmd.GetId())
	if row, err := o.store.Get(ctx, job.PartitionOf(cmd.GetJobId(), testPartitions), side, cmd.GetJobId(), item); err == nil {
		known := new(belfryv1.RememberedCommand)
		o.must(proto.Unmarshal(row.State, known))
		if !bytes.Equal(known.GetMark().GetFingerprint(), cmd.GetFingerprint()) {
			return refusal(belfryv1.Refusal_CODE_KEY_REUSED)
		}
		answer := new(belfryv1.Answer)
		o.must(proto.Unmarshal(known.GetAnswer(), answer))
		return answer
	}
	answer := o.act(ctx, c, cmd)
	answer.CommandId, answer.At = cmd.GetId(), o.now().UnixMilli()
	if cmd.GetKeyed() && answer.GetRefusal() == nil {
		c.rows = append(c.rows, persistence.Row{Slice: side, JobID: cmd.GetJobId(), Item: item, Labels: map[string]string{}, Spec: []byte{}, State: o.encode(&belfryv1.RememberedCommand{
			Mark:   &belfryv1.CommandMark{Id: cmd.GetId(), Fingerprint: cmd.GetFingerprint(), At: answer.At},
			Answer: o.encode(answer),
		})})
	}
	return answer
}

func refusal(code belfryv1.Refusal_Code) *belfryv1.Answer {
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Refusal{Refusal: &belfryv1.Refusal{Code: code}}}
}

func (o *owners) act(ctx context.Context, c *change, cmd *belfryv1.Command) *belfryv1.Answer {
	j := o.get(ctx, cmd.GetJobId())
	if reg := cmd.GetRegister(); reg != nil {
		return o.register(c, j, cmd.GetJobId(), reg)
	}
	if j == nil {
		return refusal(belfryv1.Refusal_CODE_NOT_FOUND)
	}
	now := o.now().UnixMilli()
	switch a := cmd.GetAction().(type) {
	case *belfryv1.Command_Delete:
		if r := a.Delete.GetIfRevision(); r != 0 && r != j.GetState().GetRevision() {
			return refusal(belfryv1.Refusal_CODE_REVISION)
		}
		j.Status = string(job.Deleted)
		o.put(c, j)
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Deleted{Deleted: &belfryv1.Deleted{}}}
	case *belfryv1.Command_Pause:
		j.Status, j.NextRun, j.State.StatusReason, j.State.StatusAt = string(job.Paused), 0, a.Pause.GetReason(), now
	case *belfryv1.Command_Resume:
		j.Status, j.State.StatusReason, j.State.StatusAt = string(job.Active), "", now
		o.setNext(j)
	case *belfryv1.Command_Backfill:
		return o.backfill(c, j, cmd.GetId(), a.Backfill)
	case *belfryv1.Command_CancelBackfill:
		for _, b := range j.GetState().GetBackfills() {
			if b.GetId() == a.CancelBackfill.GetId() {
				b.Reason, b.Next, b.Cancelled, b.EndedAt = "cancelled on request", 0, b.GetTotal(), now
				o.put(c, j)
				return &belfryv1.Answer{Outcome: &belfryv1.Answer_Backfill{Backfill: b}}
			}
		}
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Refusal{Refusal: &belfryv1.Refusal{
			Code: belfryv1.Refusal_CODE_NOT_FOUND, Field: "backfill_id", Message: "the job has no such backfill",
		}}}
	case *belfryv1.Command_Replay:
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: &belfryv1.Execution{
			ExecutionId: job.MarkedID(job.Replayed, j.GetJobId(), 1, job.CommandHash(cmd.GetId()), o.now()), ReplayOf: a.Replay.GetExecutionId(),
		}}}
	case *belfryv1.Command_Purge:
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Deleted{Deleted: &belfryv1.Deleted{}}}
	case *belfryv1.Command_Cancel:
		return o.cancel(c, j, a.Cancel)
	case *belfryv1.Command_Trigger:
		id := job.ManualID(j.GetJobId(), j.GetState().GetGeneration(), cmd.GetId(), o.now())
		j.State.InFlight = append(j.State.InFlight, &belfryv1.InFlight{
			Kind: belfryv1.InFlight_KIND_MANUAL, ExecutionId: id, ScheduledFor: now, Due: now, Attempt: 1, Revision: j.GetState().GetRevision(),
		})
		o.put(c, j)
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: &belfryv1.Execution{ExecutionId: id, ScheduledFor: now}}}
	}
	o.put(c, j)
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Job{Job: j}}
}

// backfill notes a range; nothing of it runs here.
func (o *owners) backfill(c *change, j *belfryv1.Job, command string, r *belfryv1.AskBackfill) *belfryv1.Answer {
	s, err := job.Compile(messages.FromTiming(j.GetSpec().GetTiming()))
	o.must(err)
	to := o.now().UnixMilli()
	if r.GetTo() != 0 {
		to = r.GetTo()
	}
	slots, err := job.PlanBackfill(s, job.Instant(r.GetFrom()), job.Instant(to), o.now(), 30*24*time.Hour)
	if bad := new(job.Invalid); errors.As(err, &bad) {
		return &belfryv1.Answer{Outcome: &belfryv1.Answer_Refusal{Refusal: &belfryv1.Refusal{
			Code: belfryv1.Refusal_CODE_INVALID, Field: bad.Problems[0].Field, Message: bad.Problems[0].Message,
		}}}
	}
	b := &belfryv1.Backfill{
		Id: job.CommandHash(command), From: r.GetFrom(), To: to, Next: slots.First.UnixMilli(), Total: slots.Count,
		Concurrency: r.GetConcurrency(), NewKey: r.GetNewKey(), AskedAt: o.now().UnixMilli(), Revision: j.GetState().GetRevision(),
	}
	if !r.GetDryRun() {
		b.Number = o.draw()
		j.State.Backfills = append(j.State.Backfills, b)
		o.put(c, j)
	}
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Backfill{Backfill: b}}
}

// cancel ends what waits; what runs is told to end.
func (o *owners) cancel(c *change, j *belfryv1.Job, m *belfryv1.Cancel) *belfryv1.Answer {
	status := string(job.Cancelled)
	for _, r := range o.running {
		if r.GetExecutionId() == m.GetExecutionId() {
			status = string(job.Running)
		}
	}
	i := slices.IndexFunc(j.State.InFlight, func(f *belfryv1.InFlight) bool {
		return messages.ExecutionID(j.GetJobId(), j.GetState().GetGeneration(), f) == m.GetExecutionId()
	})
	if i < 0 {
		return refusal(belfryv1.Refusal_CODE_NO_EXECUTION)
	}
	if status == string(job.Cancelled) {
		j.State.InFlight = slices.Delete(j.State.InFlight, i, i+1)
	} else {
		j.State.InFlight[i].Cancel = m.GetReason()
	}
	o.put(c, j)
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: &belfryv1.Execution{ExecutionId: m.GetExecutionId(), Status: status}}}
}

func (o *owners) register(c *change, old *belfryv1.Job, jobID string, r *belfryv1.Register) *belfryv1.Answer {
	switch {
	case old != nil && r.GetMode() == belfryv1.Register_MODE_CREATE:
		return refusal(belfryv1.Refusal_CODE_EXISTS)
	case old == nil && (r.GetMode() == belfryv1.Register_MODE_REPLACE || r.GetIfRevision() != 0):
		return refusal(belfryv1.Refusal_CODE_NOT_FOUND)
	case old != nil && r.GetIfRevision() != 0 && r.GetIfRevision() != old.GetState().GetRevision():
		return refusal(belfryv1.Refusal_CODE_REVISION)
	}
	now := o.now().UnixMilli()
	j := old
	if j == nil {
		j = &belfryv1.Job{JobId: jobID, Status: string(job.Active), State: &belfryv1.JobState{Generation: o.draw(), CreatedAt: now}}
	}
	if !proto.Equal(j.GetSpec(), r.GetSpec()) {
		j.Spec, j.State.Revision, j.State.UpdatedAt, j.State.Cursor = r.GetSpec(), o.draw(), now, now
	}
	if p := r.GetPaused(); p != nil {
		j.Status = string(job.Active)
		if p.GetPaused() {
			j.Status = string(job.Paused)
		}
	}
	o.setNext(j)
	o.put(c, j)
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Job{Job: j}, Created: old == nil}
}

func (o *owners) setNext(j *belfryv1.Job) {
	j.NextRun = 0
	if j.GetStatus() != string(job.Active) {
		return
	}
	s, err := job.Compile(messages.FromTiming(j.GetSpec().GetTiming()))
	o.must(err)
	if next, ok := s.Next(o.now()); ok {
		j.NextRun = next.UnixMilli()
	}
}

func (o *owners) draw() int64 { o.number++; return o.number }

func (o *owners) get(ctx context.Context, jobID string) *belfryv1.Job {
	row, err := o.store.Get(ctx, job.PartitionOf(jobID, testPartitions), job.SliceOf(jobID, testPartitions), jobID, "")
	if err != nil || row.Status == job.Deleted {
		return nil
	}
	spec, state, err := messages.DecodeJob(row.Spec, row.State)
	o.must(err)
	return &belfryv1.Job{JobId: jobID, Status: string(row.Status), Spec: spec, State: state, NextRun: row.NextRun}
}

func (o *owners) put(c *change, j *belfryv1.Job) {
	labels := j.GetSpec().GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	c.rows = append(c.rows, persistence.Row{
		Slice: job.SliceOf(j.GetJobId(), testPartitions), JobID: j.GetJobId(), Revision: j.GetState().GetRevision(),
		Status: job.Status(j.GetStatus()), NextRun: j.GetNextRun(), Labels: labels, Spec: o.encode(j.GetSpec()), State: o.encode(j.GetState()),
	})
}

// write commits the rows of one command and history of a test.
func (o *owners) write(ctx context.Context, partition int32, c *change, history ...persistence.HistoryRow) {
	if len(c.rows) == 0 && len(history) == 0 {
		return
	}
	fence, ok := o.fences[partition]
	if !ok {
		seen, err := o.store.ReadFence(ctx, partition)
		o.must(err)
		fence, err = o.store.Acquire(ctx, seen, persistence.Owner{Node: "test", Incarnation: uuid.New()}, uuid.New())
		o.must(err)
	}
	fence, err := o.store.Commit(ctx, fence, persistence.Batch{OpID: uuid.New(), LastNumber: o.number, Rows: c.rows, History: history})
	o.must(err)
	o.fences[partition] = fence
}

// edit changes a stored job as its owner would, with history in the same batch.
func (o *owners) edit(jobID string, change_ func(*belfryv1.Job), history ...persistence.HistoryRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, c := context.Background(), &change{}
	j := o.get(ctx, jobID)
	if j == nil {
		o.t.Fatalf("there is no job %s to edit", jobID)
	}
	change_(j)
	o.put(c, j)
	o.write(ctx, job.PartitionOf(jobID, testPartitions), c, history...)
}

func (o *owners) encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	o.must(err)
	if b == nil {
		b = []byte{}
	}
	return b
}

func (o *owners) must(err error) {
	if err != nil {
		o.t.Errorf("owner of the test: %v", err)
		panic(err)
	}
}

// lossy loses answers after the command has had its effect.
type lossy struct {
	Owners
	lose *bool
}

func (l lossy) Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error) {
	answer, err := l.Owners.Ask(ctx, partition, msg)
	if *l.lose {
		return nil, job.ErrNoOwner
	}
	return answer, err
}
