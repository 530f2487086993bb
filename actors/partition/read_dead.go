package partition

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// deadRead is a command about a dead letter, with what the store has of it.
type deadRead struct {
	from    *actor.PID
	command *belfryv1.Command
}

func (deadRead) Reserved() {}

// readDead reads the dead letter that a command is about, beside the mailbox.
func (o *owner) readDead(ctx actor.Context, m *belfryv1.Command) {
	sender := ctx.Sender()
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
		defer cancel()
		d, err := o.deadLetter(ctx, m.GetJobId(), m.GetReplay().GetExecutionId()+m.GetPurge().GetExecutionId())
		if err != nil {
			if sender != nil {
				o.root.Send(sender, unreadable(err))
			}
			return
		}
		fillDead(m, d)
		o.root.Send(o.self, deadRead{sender, m})
	}()
}

// deadLetter is what the store has; nil: nothing.
func (o *owner) deadLetter(ctx context.Context, jobID, execution string) (*belfryv1.DeadLetter, error) {
	row, err := o.Store.Get(ctx, o.part, job.DeadSliceOffset+job.SliceOf(jobID, o.state.cfg.Partitions), jobID, persistence.DeadItem(execution))
	if errors.Is(err, job.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return messages.DecodeDead(row.Spec, row.State)
}

// fillDead puts a dead letter into the command that is about it.
func fillDead(m *belfryv1.Command, d *belfryv1.DeadLetter) {
	switch a := m.GetAction().(type) {
	case *belfryv1.Command_Replay:
		a.Replay.Dead = d
	case *belfryv1.Command_Purge:
		a.Purge.Dead = d
	}
}

func (o *owner) aboutDead(ctx actor.Context, m deadRead) {
	switch {
	case o.givenUp && m.from != nil:
		o.root.Send(m.from, &belfryv1.NotOwner{Partition: o.part, Node: o.next})
	case !o.givenUp:
		o.last++
		if m.from != nil {
			o.refs[o.last] = m.from
		}
		o.step(ctx, Asked{Ref: o.last, Commands: []*belfryv1.Command{m.command}, Single: true})
	}
}
