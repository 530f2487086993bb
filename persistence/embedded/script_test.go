package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// A script says what each partition is told, step by step. It follows from the
// seed alone, so what a store must hold after n steps can be computed, and a
// recovered store can be asked how many it holds.
type script struct {
	seed    uint64
	batches *sync.Map // of those made before, by partition and step
}

func newScript(t testing.TB) script {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return script{seed: seed, batches: new(sync.Map)}
}

const (
	scriptPartitions = 4
	scriptDay        = job.Day(20_000)
)

var scriptOwner = persistence.Owner{Node: "n", Incarnation: uuid.UUID{1}}

// op is the name of a step, n counted from 1; none for the state before it.
func (s script) op(partition int32, n int64) (op uuid.UUID) {
	if n > 0 {
		binary.BigEndian.PutUint64(op[:], uint64(partition)+1)
		binary.BigEndian.PutUint64(op[8:], uint64(n))
	}
	return op
}

// Every sixteenth step acquires and every sixteenth kills a batch that never
// came; the others commit.
func acquires(n int64) bool { return n%16 == 1 }
func settles(n int64) bool  { return n%16 == 9 }

// fence is what n steps leave.
func (s script) fence(partition int32, n int64) persistence.Fence {
	f := persistence.Fence{Partition: partition, Seq: n, OpID: s.op(partition, n)}
	for i := int64(1); i <= n; i++ {
		switch {
		case acquires(i):
			f.Epoch++
			f.Owner, f.Incarnation = scriptOwner.Node, scriptOwner.Incarnation
		case settles(i):
			f.Epoch++
		default:
			f.LastNumber = i
		}
	}
	return f
}

// batch is the commit of step n: a full row, a change of state, a deletion, an
// item, and two rows of history.
func (s script) batch(partition int32, n int64) persistence.Batch {
	key := [2]int64{int64(partition), n}
	if b, ok := s.batches.Load(key); ok {
		return b.(persistence.Batch)
	}
	b := s.make(partition, n)
	s.batches.Store(key, b)
	return b
}

func (s script) make(partition int32, n int64) persistence.Batch {
	rng := rand.New(rand.NewPCG(s.seed, uint64(partition)<<32|uint64(n)))
	var blob []byte
	for len(blob) < 3000 {
		blob = binary.NativeEndian.AppendUint64(blob, rng.Uint64())
	}
	full := persistence.Row{
		Slice: int16(n % 17), JobID: fmt.Sprint("full", n%17), Revision: n, Status: job.Active, NextRun: n,
		Labels: map[string]string{"n": fmt.Sprint(n)}, Spec: blob, State: blob[:40],
	}
	hot := persistence.Row{Slice: 40, JobID: "hot", Revision: n, Status: job.Paused, State: blob[40:80]}
	gone := persistence.Row{Slice: int16((n + 5) % 17), JobID: fmt.Sprint("full", (n+5)%17), Delete: true}
	item := persistence.Row{Slice: 128, JobID: "hot", Item: persistence.CommandItem(fmt.Sprint(n % 9)), Status: job.Active, Spec: blob[:8]}
	h := persistence.HistoryRow{Day: scriptDay, JobID: "hot", ScheduledFor: n * 1000, ExecutionID: fmt.Sprint("e", n), Decision: n, Epoch: 1, Record: blob[:60]}
	a := h
	a.Attempt = 1
	rows := []persistence.Row{full, hot, item}
	if n%3 == 0 {
		rows = append(rows, gone)
	}
	return persistence.Batch{OpID: s.op(partition, n), LastNumber: n, Rows: rows, History: []persistence.HistoryRow{h, a}}
}

// play takes one step of a partition that stands at n-1.
func (s script) play(ctx context.Context, store persistence.Store, partition int32, n int64) error {
	held, op := s.fence(partition, n-1), s.op(partition, n)
	var err error
	switch {
	case acquires(n):
		_, err = store.Acquire(ctx, held, scriptOwner, op)
	case settles(n):
		_, _, err = store.Settle(ctx, held, uuid.UUID{9}, op)
	default:
		_, err = store.Commit(ctx, held, s.batch(partition, n))
	}
	return err
}

type rowName struct {
	slice     int16
	job, item string
}

// rows is what n steps leave.
func (s script) rows(partition int32, n int64) map[rowName]persistence.Row {
	all := map[rowName]persistence.Row{}
	for i := int64(1); i <= n; i++ {
		if acquires(i) || settles(i) {
			continue
		}
		for _, r := range s.batch(partition, i).Rows {
			key := rowName{r.Slice, r.JobID, r.Item}
			old := all[key]
			if r.Delete {
				delete(all, key)
				continue
			}
			if r.Spec == nil {
				r.Spec = old.Spec
			}
			if r.State == nil {
				r.State = old.State
			}
			all[key] = r
		}
	}
	return all
}

// verify checks that a partition holds exactly what some number of steps leave,
// and that the number is neither below lo nor above hi. It returns the number.
func (s script) verify(ctx context.Context, store persistence.Store, partition int32, lo, hi int64) (int64, error) {
	f, err := store.ReadFence(ctx, partition)
	if err != nil {
		return 0, err
	}
	n := f.Seq
	if n < lo || n > hi {
		return n, fmt.Errorf("partition %d holds %d steps, acknowledged were %d, begun %d", partition, n, lo, hi)
	}
	if want := s.fence(partition, n); f != want {
		return n, fmt.Errorf("partition %d: fence is %v, want %v", partition, f, want)
	}
	want := s.rows(partition, n)
	err = store.Load(ctx, partition, 0, 192, func(r persistence.Row) error {
		key := rowName{r.Slice, r.JobID, r.Item}
		w, ok := want[key]
		delete(want, key)
		if !ok || r.Revision != w.Revision || r.Status != w.Status || !maps.Equal(r.Labels, w.Labels) ||
			!bytes.Equal(r.Spec, w.Spec) || !bytes.Equal(r.State, w.State) {
			return fmt.Errorf("partition %d after %d steps: row %v is not as written", partition, n, key)
		}
		return nil
	})
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("partition %d after %d steps: %d rows are missing", partition, n, len(want))
	}
	return n, cmp.Or(err, s.verifyHistory(ctx, store, partition, n))
}

func (s script) verifyHistory(ctx context.Context, store persistence.Store, partition int32, n int64) error {
	got, err := store.Executions(ctx, partition, scriptDay, "hot", nil, 1<<20)
	if err != nil {
		return err
	}
	for i := n; i > 0; i-- {
		if acquires(i) || settles(i) {
			continue
		}
		if len(got) == 0 || got[0].Decision != i || !bytes.Equal(got[0].Record, s.batch(partition, i).History[0].Record) {
			return fmt.Errorf("partition %d after %d steps: the history of step %d is not there", partition, n, i)
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return fmt.Errorf("partition %d after %d steps: %d history rows too many", partition, n, len(got))
	}
	return nil
}

// progress counts the steps of each partition.
type progress struct {
	begun, acknowledged [scriptPartitions]atomic.Int64
}

func load(counts *[scriptPartitions]atomic.Int64) (now [scriptPartitions]int64) {
	for i := range counts {
		now[i] = counts[i].Load()
	}
	return now
}

// run plays the script in all partitions at once, until more is false or a step
// fails. It returns the errors.
func (s script) run(ctx context.Context, store persistence.Store, p *progress, more func() bool) []error {
	errs := make([]error, scriptPartitions)
	var wg sync.WaitGroup
	for partition := range int32(scriptPartitions) {
		wg.Go(func() {
			for n := p.acknowledged[partition].Load() + 1; more(); n++ {
				p.begun[partition].Store(n)
				if errs[partition] = s.play(ctx, store, partition, n); errs[partition] != nil {
					return
				}
				p.acknowledged[partition].Store(n)
			}
		})
	}
	wg.Wait()
	return errs
}

// verifyAll is verify for every partition; it returns the steps found.
func (s script) verifyAll(ctx context.Context, store persistence.Store, lo, hi [scriptPartitions]int64) (found [scriptPartitions]int64, err error) {
	for partition := range int32(scriptPartitions) {
		n, e := s.verify(ctx, store, partition, lo[partition], hi[partition])
		found[partition], err = n, errors.Join(err, e)
	}
	return found, err
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }
