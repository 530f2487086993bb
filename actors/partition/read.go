package partition

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/listing"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Bounds of a page of executions, as the gateway has them.
const (
	defaultPage = 50
	maxPage     = 1000
)

// describeTimeout is how long a list waits for what the owner holds in memory.
const describeTimeout = 500 * time.Millisecond

// read answers a question from the store, beside the mailbox: what it shows is
// durable.
func (o *owner) read(ctx actor.Context, answer func(context.Context) proto.Message) {
	sender := ctx.Sender()
	if sender == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
		defer cancel()
		o.root.Send(sender, answer(ctx))
	}()
}

func (o *owner) getJob(ctx context.Context, m *belfryv1.GetJob) *belfryv1.Answer {
	j, row, no := o.stored(ctx, m.GetJobId())
	if no == nil && row.Status == job.Deleted {
		no = missing(m.GetJobId())
	}
	if no != nil {
		return no
	}
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Job{Job: &belfryv1.Job{
		JobId: row.JobID, Status: string(row.Status), Spec: j.Spec, State: j.State, NextRun: row.NextRun,
	}}}
}

// listExecutions shows those of deleted jobs, too.
func (o *owner) listExecutions(ctx context.Context, m *belfryv1.ListExecutions) *belfryv1.ExecutionList {
	j, _, no := o.stored(ctx, m.GetJobId())
	if no != nil {
		return &belfryv1.ExecutionList{Refusal: no.GetRefusal()}
	}
	limit := int(m.GetLimit())
	if limit <= 0 {
		limit = defaultPage
	}
	limit = min(limit, maxPage)
	now, before := o.Now(), m.GetBefore()
	asOf, cursor := now, (*persistence.Cursor)(nil)
	if before != nil {
		asOf, cursor = job.Instant(before.GetAsOf()), &persistence.Cursor{ScheduledFor: before.GetScheduledFor(), ExecutionID: before.GetExecutionId()}
	}
	reader := listing.Reader{History: o.Store, Partitions: o.state.cfg.Partitions, Compile: job.Compile}
	page, err := reader.Page(ctx, j, cursor, asOf, limit+1)
	if err != nil {
		return &belfryv1.ExecutionList{Refusal: unreadable(err).GetRefusal()}
	}
	out := &belfryv1.ExecutionList{Executions: page}
	if len(page) > limit {
		last := page[limit-1]
		out.Executions = page[:limit]
		out.Next = &belfryv1.Place{ScheduledFor: last.GetScheduledFor(), ExecutionId: last.GetExecutionId(), AsOf: asOf.UnixMilli()}
	}
	if listing.Undecided(out.GetExecutions()) {
		listing.MarkRunning(out.GetExecutions(), o.describe(m.GetJobId()), now)
	}
	return out
}

// describe asks the mailbox; nil: it is too busy.
func (o *owner) describe(jobID string) *belfryv1.Description {
	answer, err := o.root.RequestFuture(o.self, &belfryv1.Describe{JobId: jobID}, describeTimeout).Result()
	if err != nil {
		return nil
	}
	d, _ := answer.(*belfryv1.Description)
	return d
}

// stored is a job as the store has it, or why not.
func (o *owner) stored(ctx context.Context, id string) (*listing.Job, persistence.Row, *belfryv1.Answer) {
	n := o.state.cfg.Partitions
	if job.PartitionOf(id, n) != o.part {
		return nil, persistence.Row{}, refusal("", belfryv1.Refusal_CODE_NOT_OWNER, "", "job %q belongs to another partition", id)
	}
	row, err := o.Store.Get(ctx, o.part, job.SliceOf(id, n), id, "")
	if errors.Is(err, job.ErrNotFound) {
		return nil, row, missing(id)
	}
	if err != nil {
		return nil, row, unreadable(err)
	}
	spec, state, err := messages.DecodeJob(row.Spec, row.State)
	if err != nil {
		return nil, row, refusal("", belfryv1.Refusal_CODE_STATE, "", "the stored row of job %q cannot be read: %v", id, err)
	}
	return &listing.Job{ID: id, Status: row.Status, Spec: spec, State: state}, row, nil
}

func missing(id string) *belfryv1.Answer {
	return refusal("", belfryv1.Refusal_CODE_NOT_FOUND, "", "there is no job %q", id)
}

func unreadable(err error) *belfryv1.Answer {
	return refusal("", belfryv1.Refusal_CODE_UNAVAILABLE, "", "the store does not answer: %v", err)
}
