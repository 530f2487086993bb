package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// ask sends a command to the owner of its job and returns the answer; a refusal
// is a problem.
func (g *Gateway) ask(ctx context.Context, cmd *belfryv1.Command, cond condition) (*belfryv1.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limits.Ask)
	defer cancel()
	msg, err := g.cfg.Owners.Ask(ctx, g.partition(cmd.GetJobId()), cmd)
	if err != nil {
		return nil, g.unreachable(err)
	}
	answer, ok := msg.(*belfryv1.Answer)
	if !ok {
		return nil, fmt.Errorf("the owner answered a command with %T", msg)
	}
	if r := answer.GetRefusal(); r != nil {
		return nil, fromRefusal(r, cmd.GetJobId(), cond)
	}
	return answer, nil
}

// unreachable tells a store that is away from an owner that is.
func (g *Gateway) unreachable(err error) error {
	if errors.Is(err, job.ErrNoOwner) {
		if unhealthy := g.cfg.Store.Healthy(); unhealthy != nil {
			return fmt.Errorf("%w: %w", job.ErrUnavailable, unhealthy)
		}
	}
	return err
}

// describe asks the owner what runs now; nil when it did not say in time.
func (g *Gateway) describe(ctx context.Context, jobID string) *belfryv1.Description {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limits.Describe)
	defer cancel()
	msg, err := g.cfg.Owners.Ask(ctx, g.partition(jobID), &belfryv1.Describe{JobId: jobID})
	if err != nil {
		return nil
	}
	d, _ := msg.(*belfryv1.Description)
	return d
}

func (g *Gateway) partition(jobID string) int32 { return job.PartitionOf(jobID, g.partitions) }
func (g *Gateway) slice(jobID string) int16     { return job.SliceOf(jobID, g.partitions) }

// stored is a job as the store has it.
type stored struct {
	row        persistence.Row
	spec       *belfryv1.JobSpec
	state      *belfryv1.JobState
	unreadable bool
}

// read returns a job's row, deleted ones included. job.ErrNotFound.
func (g *Gateway) read(ctx context.Context, jobID string) (*stored, error) {
	row, err := g.cfg.Store.Get(ctx, g.partition(jobID), g.slice(jobID), jobID, "")
	if err != nil {
		return nil, err
	}
	return decodeRow(row), nil
}

// readJob is read for those to whom a deleted job is none.
func (g *Gateway) readJob(ctx context.Context, jobID string) (*stored, error) {
	s, err := g.read(ctx, jobID)
	if err == nil && s.row.Status == job.Deleted {
		return nil, job.ErrNotFound
	}
	return s, err
}

// decodeRow never fails: a row that cannot be read is a job in error, and the
// others are none the worse for it. One of a newer format is in no error: it
// cannot be read here.
func decodeRow(row persistence.Row) *stored {
	spec, state, err := messages.DecodeJob(row.Spec, row.State)
	if err != nil {
		if newer := new(messages.NewerFormat); !errors.As(err, &newer) {
			row.Status = job.Faulty
		}
		spec, state = new(belfryv1.JobSpec), &belfryv1.JobState{Revision: row.Revision, StatusReason: "its stored row cannot be read: " + err.Error()}
	}
	return &stored{row: row, spec: spec, state: state, unreadable: err != nil}
}

// asJob is the row in the form that owners answer with.
func (s *stored) asJob() *belfryv1.Job {
	return &belfryv1.Job{
		JobId: s.row.JobID, Status: string(s.row.Status), Spec: s.spec, State: s.state, NextRun: s.row.NextRun,
	}
}
