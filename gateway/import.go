package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// How an import is cut up. Many partitions share the stream, so a wave of lines
// is gathered before it is handed to their owners: each then commits many jobs
// at once.
const (
	chunkLines  = 128
	maxBatch    = 256     // commands that an owner is asked at once
	batchBytes  = 1 << 20 // and of them, but always one command: a transport takes 4 MiB
	waveLines   = 8192
	waveAge     = 100 * time.Millisecond // of the oldest line that waits
	wavePause   = 5 * time.Millisecond   // without a new line: the sender waits for answers
	readIdle    = 60 * time.Second
	outboxBytes = 8 << 20
)

// importJobs is POST /v1/jobs:import.
//
//	read ─▶ chunk ─▶ parse, in parallel ─▶ in order: lanes, one a partition
//	                                                     │ Commands of ≤ 256, ≤ 1 MiB
//	write ◀─ outbox ◀─ in order, when the whole chunk is answered
//
// Lines for one partition, so also lines for one job, are sent in their order. A
// line with depends_on waits until those before it are answered.
func (g *Gateway) importJobs(c *call) error {
	if err := c.checkType(typeNDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines"); err != nil {
		return err
	}
	if c.r.Header.Get("Idempotency-Key") != "" {
		return invalid("header.Idempotency-Key", "an import does not take one: every line is an upsert under its own job_id and may be sent again")
	}
	out := newLines(c)
	_ = out.rc.EnableFullDuplex() // an error means that it is so anyway, as in HTTP/2
	out.write(nil)
	// A client that has sent everything may close its half of the connection;
	// one that is gone ends the import by the errors of its reads and writes.
	ctx := context.WithoutCancel(c.r.Context())
	return newImporter(g, ctx).run(&patientReader{c: c, rc: out.rc}, out)
}

// patientReader gives each read of the body its own deadline.
type patientReader struct {
	c   *call
	rc  *http.ResponseController
	ctx context.Context
}

// Read reads from the body, until its import is given up.
func (p *patientReader) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(readIdle)) // without deadlines the server's own stays
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.c.r.Body.Read(b)
}

// giveUp ends the read that is under way.
func (p *patientReader) giveUp() { _ = p.rc.SetReadDeadline(time.Now()) }

// extendWrite gives the next write its own deadline.
func (c *call) extendWrite(rc *http.ResponseController) {
	_ = rc.SetWriteDeadline(time.Now().Add(c.g.cfg.Limits.Write)) // without deadlines the server's own stays
}

// importer is one import.
type importer struct {
	g       *Gateway
	ctx     context.Context
	name    string // in front of command ids
	window  *semaphore.Weighted
	work    chan *chunk // to be parsed, by whoever is free
	ordered chan *chunk // the same, in order, to be dispatched
	pending chan *chunk // the same, in order, to be written
	lanes   []lane
	open    sync.WaitGroup // lines that are sent and not answered
	driving sync.WaitGroup // lanes that are not at rest
}

func newImporter(g *Gateway, ctx context.Context) *importer {
	window := max(g.cfg.Limits.ImportWindow, chunkLines)
	chunks := window/chunkLines + 1
	return &importer{
		g: g, ctx: ctx, name: uuid.NewString(), window: semaphore.NewWeighted(int64(window)),
		work: make(chan *chunk, chunks), ordered: make(chan *chunk, chunks), pending: make(chan *chunk, chunks),
		lanes: make([]lane, g.partitions),
	}
}

// run carries the import to its end: every line that was read is answered. The
// first part to fail ends the others.
func (im *importer) run(body *patientReader, out *lines) error {
	ctx, cancel := context.WithCancel(im.ctx)
	im.ctx, body.ctx = ctx, ctx
	stop := context.AfterFunc(ctx, body.giveUp)
	var parts errgroup.Group
	part := func(do func() error) {
		parts.Go(func() error {
			err := do()
			if err != nil {
				cancel()
			}
			return err
		})
	}
	for range min(runtime.GOMAXPROCS(0), 4) {
		part(im.parseAll)
	}
	box := newOutbox(outboxBytes)
	part(im.dispatch)
	part(func() error { return box.drain(out) })
	part(func() error { defer box.close(); return im.collect(box) })
	err := im.read(body)
	close(im.work)
	close(im.ordered)
	close(im.pending)
	err = errors.Join(parts.Wait(), err)
	stop() // before the end of ctx, which must not touch the connection's next request
	cancel()
	im.driving.Wait()
	return err
}

// read cuts the body into chunks until it ends.
func (im *importer) read(body io.Reader) error {
	limit := int(im.g.cfg.Limits.Body)
	in := bufio.NewReaderSize(body, limit+2)
	ch := newChunk(1)
	for number := int64(1); ; number++ {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = skipLine(in)
			text = nil
			ch.refuse(number, refuse(api.CodeTooLarge, "the line has more than %d bytes: a job that large cannot be stored", limit))
		}
		ch.add(text)
		ends := err != nil
		if len(ch.ends) == chunkLines || ends || !hasLine(in) {
			if e := im.send(ch); e != nil {
				return e
			}
			ch = newChunk(number + 1)
		}
		if ends {
			return im.readEnd(err, number)
		}
	}
}

// readEnd tells a body that is complete from one that broke off: then a last
// line says so.
func (im *importer) readEnd(err error, number int64) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	ch := newChunk(number + 1)
	ch.refuse(number+1, asProblem(bodyError(err)))
	ch.add(nil)
	return im.send(ch)
}

// skipLine drops the rest of a line that is too long.
func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// hasLine tells whether a whole line can be read without waiting.
func hasLine(in *bufio.Reader) bool {
	ready, _ := in.Peek(in.Buffered())
	return bytes.IndexByte(ready, '\n') >= 0
}

// send puts a chunk on its way when the window has room for it.
func (im *importer) send(ch *chunk) error {
	if err := im.window.Acquire(im.ctx, int64(len(ch.lines))); err != nil {
		return err
	}
	im.work <- ch // these two are always emptied, whatever happens
	im.ordered <- ch
	select {
	case im.pending <- ch:
		return nil
	case <-im.ctx.Done():
		return im.ctx.Err()
	}
}

// collect writes the results in order, each chunk when it is answered.
func (im *importer) collect(box *outbox) error {
	var buf []byte
	for ch := range im.pending {
		select {
		case <-ch.done:
		case <-im.ctx.Done():
			return im.ctx.Err()
		}
		buf = buf[:0]
		for i := range ch.lines {
			buf = im.appendResult(buf, &ch.lines[i].result)
		}
		im.window.Release(int64(len(ch.lines)))
		if err := box.put(im.ctx, buf); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) appendResult(buf []byte, r *api.ImportResult) []byte {
	if r.Line == 0 {
		return buf
	}
	im.g.metrics.imported.WithLabelValues(r.Result).Inc()
	if r.Error != nil {
		b, err := encode(r)
		if err != nil {
			b = []byte(`{"result":"failed"}`)
		}
		return append(append(buf, b...), '\n')
	}
	buf = append(buf, `{"line":`...) // by hand: an id needs no escapes
	buf = strconv.AppendInt(buf, r.Line, 10)
	buf = append(buf, `,"job_id":"`...)
	buf = append(buf, r.JobID...)
	buf = append(buf, `","result":"`...)
	buf = append(buf, r.Result...)
	buf = append(buf, `","revision":`...)
	buf = strconv.AppendInt(buf, r.Revision, 10)
	return append(buf, '}', '\n')
}
