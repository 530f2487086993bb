package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// How often a batch of an import is repeated while its owner is away, and the
// first pause, which doubles.
const (
	laneTries = 6
	lanePause = 50 * time.Millisecond
)

// lane is the queue of one partition's lines; at most one batch of it is out.
type lane struct {
	mu    sync.Mutex
	queue []*importLine
	busy  bool
}

// dispatch gathers parsed lines into waves and hands each wave to the lanes. A
// wave ends when it is large, when it is old, or when the sender pauses: then
// it may be waiting for answers.
func (im *importer) dispatch() error {
	w := wave{im: im, pause: time.NewTimer(wavePause)}
	defer w.pause.Stop()
	for {
		select {
		case ch, ok := <-im.ordered:
			if !ok {
				w.flush()
				return nil
			}
			<-ch.parsed
			w.add(ch)
		case <-w.paused():
			w.flush()
		}
	}
}

// wave is lines that are gathered before they go to the lanes.
type wave struct {
	im    *importer
	lines []*importLine
	since time.Time // of the first line
	pause *time.Timer
}

// paused fires when no line came for a while; never while there is none.
func (w *wave) paused() <-chan time.Time {
	if len(w.lines) == 0 {
		return nil
	}
	w.pause.Reset(wavePause)
	return w.pause.C
}

func (w *wave) add(ch *chunk) {
	if len(w.lines) == 0 {
		w.since = time.Now()
	}
	for _, l := range ch.commands(nil) {
		if len(l.cmd.GetRegister().GetSpec().GetDependsOn()) > 0 {
			w.follow(l)
		} else {
			w.lines = append(w.lines, l)
		}
	}
	if len(w.lines) >= waveLines || time.Since(w.since) >= waveAge {
		w.flush()
	}
}

func (w *wave) flush() {
	w.im.release(w.lines)
	w.lines = w.lines[:0]
}

// follow sends a line whose upstreams may be created by lines before it, when
// those are answered.
func (w *wave) follow(l *importLine) {
	w.flush()
	w.im.open.Wait()
	w.lines = append(w.lines, l)
	w.flush()
}

// commands adds the lines of a chunk that are to be sent.
func (ch *chunk) commands(wave []*importLine) []*importLine {
	for i := range ch.lines {
		if ch.lines[i].cmd != nil {
			wave = append(wave, &ch.lines[i])
		}
	}
	return wave
}

// release queues the lines of a wave, and starts the lanes that rest.
func (im *importer) release(wave []*importLine) {
	touched := map[int32]bool{}
	for _, l := range wave {
		p := im.g.partition(l.cmd.GetJobId())
		la := &im.lanes[p]
		l.open = &im.open
		l.open.Add(1)
		la.mu.Lock()
		la.queue = append(la.queue, l)
		la.mu.Unlock()
		touched[p] = true
	}
	for p := range touched {
		la := &im.lanes[p]
		la.mu.Lock()
		start := !la.busy
		la.busy = true
		la.mu.Unlock()
		if start {
			im.driving.Go(func() { im.drive(p) })
		}
	}
}

// drive sends a lane's batches until its queue is empty.
func (im *importer) drive(partition int32) {
	la := &im.lanes[partition]
	for {
		batch := la.next()
		if len(batch) == 0 {
			return
		}
		im.deliver(partition, batch)
	}
}

// next takes a batch out of the queue; when there is none the lane rests.
func (la *lane) next() []*importLine {
	la.mu.Lock()
	defer la.mu.Unlock()
	n, size := 0, 0
	for ; n < min(len(la.queue), maxBatch); n++ {
		if size += la.queue[n].size; n > 0 && size > batchBytes {
			break
		}
	}
	batch := la.queue[:n:n]
	la.queue = la.queue[n:]
	la.busy = n > 0
	return batch
}

// deliver sends a batch until each of its lines has a result. What an owner
// cannot take now is repeated under the same command ids.
func (im *importer) deliver(partition int32, batch []*importLine) {
	pause := lanePause
	for try := 1; ; try++ {
		batch = im.attempt(partition, batch, try == laneTries)
		if len(batch) == 0 {
			return
		}
		if err := sleep(im.ctx, pause); err != nil {
			im.failAll(batch, err)
			return
		}
		pause *= 2
	}
}

// attempt asks once, and returns the lines that are worth another try.
func (im *importer) attempt(partition int32, batch []*importLine, last bool) (again []*importLine) {
	answers, err := im.askBatch(partition, batch)
	if err != nil {
		if !last && errors.Is(err, job.ErrNoOwner) {
			return batch
		}
		im.failAll(batch, im.g.unreachable(err))
		return nil
	}
	for i, l := range batch {
		if r := answers[i].GetRefusal(); r != nil && !last && passing(r.GetCode()) {
			again = append(again, l)
			continue
		}
		l.settle(answers[i])
	}
	return again
}

func (im *importer) askBatch(partition int32, batch []*importLine) ([]*belfryv1.Answer, error) {
	ctx, cancel := context.WithTimeout(im.ctx, im.g.cfg.Limits.Ask)
	defer cancel()
	cmds := &belfryv1.Commands{Commands: make([]*belfryv1.Command, len(batch))}
	for i, l := range batch {
		cmds.Commands[i] = l.cmd
	}
	msg, err := im.g.cfg.Owners.Ask(ctx, partition, cmds)
	if err != nil {
		return nil, err
	}
	answers, ok := msg.(*belfryv1.Answers)
	if !ok || len(answers.GetAnswers()) != len(batch) {
		return nil, fmt.Errorf("the owner answered %d commands with %T of %d", len(batch), msg, len(answers.GetAnswers()))
	}
	return answers.GetAnswers(), nil
}

// passing refusals are about the owner and not about the job.
func passing(code belfryv1.Refusal_Code) bool {
	switch code {
	case belfryv1.Refusal_CODE_BUSY, belfryv1.Refusal_CODE_NOT_OWNER, belfryv1.Refusal_CODE_UNAVAILABLE, belfryv1.Refusal_CODE_IN_FLIGHT:
		return true
	}
	return false
}

func (im *importer) failAll(batch []*importLine, err error) {
	for _, l := range batch {
		l.fail(err)
		l.finish()
	}
}

// settle turns an owner's answer into the line's result.
func (l *importLine) settle(a *belfryv1.Answer) {
	switch r := a.GetRefusal(); {
	case r != nil:
		l.fail(fromRefusal(r, l.cmd.GetJobId(), condition{}))
	case a.GetCreated():
		l.result.Result = api.ImportCreated
	default:
		l.result.Result = api.ImportUpdated
	}
	l.result.Revision = a.GetJob().GetState().GetRevision()
	l.finish()
}

// finish tells the chunk that one more line has its result.
func (l *importLine) finish() {
	l.cmd = nil
	l.open.Done()
	if l.chunk.left.Add(-1) == 0 {
		close(l.chunk.done)
	}
}
