package storetest

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var contexts = []behaviour{
	{"a call whose context has ended does nothing", contextEnded},
	{"a load ends with its context", contextEndsLoad},
}

func contextEnded(b *bundle) {
	row := b.row(1, "x", 1)
	b.commit(row)
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	p, s := b.held.Partition, b.store
	_, clusterErr := s.Cluster(ctx, Constants())
	_, readErr := s.ReadFence(ctx, p)
	_, acquireErr := s.Acquire(ctx, b.held, newOwner("b"), uuid.New())
	_, commitErr := s.Commit(ctx, b.held, persistence.Batch{OpID: uuid.New(), Rows: []persistence.Row{b.row(1, "x", 2)}})
	_, _, settleErr := s.Settle(ctx, b.held, uuid.New(), uuid.New())
	_, getErr := s.Get(ctx, p, 1, row.JobID, "")
	_, _, _, listErr := s.List(ctx, persistence.Position{}, 10)
	_, executionsErr := s.Executions(ctx, p, today, row.JobID, nil, 10)
	_, attemptsErr := s.Attempts(ctx, p, today, row.JobID, 0, "e")
	for what, err := range map[string]error{
		"cluster": clusterErr, "read": readErr, "acquire": acquireErr, "commit": commitErr, "settle": settleErr,
		"get": getErr, "list": listErr, "executions": executionsErr, "attempts": attemptsErr,
		"release": s.Release(ctx, b.held, uuid.New()),
		"load":    s.Load(ctx, p, 0, 64, func(persistence.Row) error { return nil }),
		"expire":  s.Expire(ctx, p, today+1),
	} {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) {
			b.Errorf("%s: got error %v, want ErrUnavailable and the context's, and no doubt", what, err)
		}
	}
	same(b, "fence", b.read(p), b.held)
	b.stored(row)
}

func contextEndsLoad(b *bundle) {
	for batch := range 4 {
		var rows []persistence.Row
		for i := range 200 {
			row := b.row(int16(batch), "", i)
			row.JobID = b.id(uuid.NewString())
			rows = append(rows, row)
		}
		b.commit(rows...)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	n := 0
	err := b.store.Load(ctx, b.held.Partition, 0, 64, func(persistence.Row) error {
		n++
		cancel()
		return nil
	})
	cancel()
	if !errors.Is(err, context.Canceled) {
		b.Fatalf("load: got error %v after %d rows, want the context's", err, n)
	}
}
