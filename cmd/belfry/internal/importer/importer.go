package importer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Sender sends lines and passes on a result for each, in their order.
type Sender interface {
	Import(ctx context.Context, lines []byte, result func(api.ImportResult) error) error
}

// Config is how an import is done.
type Config struct {
	Sender      Sender
	Connections int   // chunks on the way at once; 0: 2
	ChunkLines  int   // 0: 5,000
	ChunkBytes  int   // 0: 4 MiB
	After       int64 // lines up to this one were done before

	Progress func(Progress) error // after each chunk, in the order of the file
	Failure  func(Failure) error  // for each line that was refused, in the order of the file
}

// Progress is how far an import has come: everything up to a line is answered.
type Progress struct {
	Line                     int64
	Offset                   int64
	Created, Updated, Failed int64
}

// Failure is a line that the server, or this program, refused.
type Failure struct {
	Line  int64        `json:"line"`
	JobID string       `json:"job_id,omitzero"`
	Error *api.Problem `json:"error"`
	Text  string       `json:"text,omitzero"`
}

// chunk is a run of lines that is sent at once.
type chunk struct {
	seq      int
	lines    []Line // that are sent
	body     bytes.Buffer
	failures []Failure
	last     Line
	created  int64
	updated  int64
}

// Run imports a source. The progress that it returns is good also with an
// error: what came before its line need not be sent again.
func Run(ctx context.Context, src Source, cfg Config) (Progress, error) {
	if cfg.Connections <= 0 {
		cfg.Connections = 2
	}
	if cfg.ChunkLines <= 0 {
		cfg.ChunkLines = 5_000
	}
	if cfg.ChunkBytes <= 0 {
		cfg.ChunkBytes = 4 << 20
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group, ctx := errgroup.WithContext(ctx)
	todo, done := make(chan *chunk), make(chan *chunk)
	group.Go(func() error {
		defer close(todo)
		return cfg.cut(ctx, src, todo)
	})
	senders, sending := errgroup.WithContext(ctx)
	for range cfg.Connections {
		senders.Go(func() error { return cfg.sendAll(sending, todo, done) })
	}
	group.Go(func() error {
		defer close(done)
		return senders.Wait()
	})
	progress := Progress{Line: cfg.After}
	err := cfg.collect(done, &progress, cancel)
	if sendErr := group.Wait(); err == nil {
		err = sendErr
	}
	return progress, err
}

// cut makes chunks of lines.
func (cfg Config) cut(ctx context.Context, src Source, todo chan<- *chunk) error {
	c := &chunk{}
	flush := func() error {
		select {
		case todo <- c:
			c = &chunk{seq: c.seq + 1}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := src(func(l Line) error {
		if l.Number <= cfg.After {
			return nil
		}
		c.add(l)
		if len(c.lines) >= cfg.ChunkLines || c.body.Len() >= cfg.ChunkBytes || len(c.failures) >= cfg.ChunkLines {
			return flush()
		}
		return nil
	})
	if err == nil && c.last.Number > 0 {
		err = flush()
	}
	return err
}

func (c *chunk) add(l Line) {
	c.last = Line{Number: l.Number, Offset: l.Offset}
	if l.Problem != "" {
		c.failures = append(c.failures, Failure{Line: l.Number, Text: l.Text, Error: &api.Problem{Title: "Not sent", Code: api.CodeInvalid, Detail: l.Problem}})
		return
	}
	c.lines = append(c.lines, l)
	c.body.Write(l.Body)
	c.body.WriteByte('\n')
}

// sendAll sends chunks until there are no more.
func (cfg Config) sendAll(ctx context.Context, todo <-chan *chunk, done chan<- *chunk) error {
	for c := range todo {
		if err := cfg.send(ctx, c); err != nil {
			return err
		}
		select {
		case done <- c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// send sends a chunk; when the answer breaks off, it tries once more.
func (cfg Config) send(ctx context.Context, c *chunk) error {
	if len(c.lines) == 0 {
		return nil
	}
	own := c.failures
	for try := 0; ; try++ {
		c.created, c.updated, c.failures = 0, 0, slices.Clone(own)
		answered := 0
		err := cfg.Sender.Import(ctx, c.body.Bytes(), func(r api.ImportResult) error {
			answered++
			return c.take(r)
		})
		if err == nil && answered != len(c.lines) {
			err = fmt.Errorf("the server answered %d of %d lines", answered, len(c.lines))
		}
		if err == nil {
			return nil
		}
		var refused *api.Problem
		if try > 0 || ctx.Err() != nil || errors.As(err, &refused) {
			return fmt.Errorf("import lines %d to %d: %w", c.lines[0].Number, c.last.Number, err)
		}
	}
}

func (c *chunk) take(r api.ImportResult) error {
	if r.Line < 1 || r.Line > int64(len(c.lines)) {
		return fmt.Errorf("the server answered a line %d that was not sent", r.Line)
	}
	switch r.Result {
	case api.ImportCreated:
		c.created++
	case api.ImportUpdated:
		c.updated++
	default:
		problem := r.Error
		if problem == nil {
			problem = &api.Problem{Title: "Refused", Code: api.CodeInvalid, Detail: "the server did not say why"}
		}
		l := c.lines[r.Line-1]
		c.failures = append(c.failures, Failure{Line: l.Number, JobID: r.JobID, Error: problem, Text: text(l)})
	}
	return nil
}

// text is what stands in the file, or what was sent.
func text(l Line) string {
	if l.Text != "" {
		return l.Text
	}
	return string(l.Body)
}

// collect puts answered chunks in the order of the file. An error stops the
// import; reading goes on, so that nobody waits for it.
func (cfg Config) collect(done <-chan *chunk, p *Progress, stop context.CancelCauseFunc) error {
	var err error
	waiting, next := map[int]*chunk{}, 0
	for c := range done {
		waiting[c.seq] = c
		for ; err == nil && waiting[next] != nil; next++ {
			if err = cfg.finish(waiting[next], p); err != nil {
				stop(err)
			}
			delete(waiting, next)
		}
	}
	return err
}

func (cfg Config) finish(c *chunk, p *Progress) error {
	slices.SortFunc(c.failures, func(a, b Failure) int { return cmp.Compare(a.Line, b.Line) })
	for _, f := range c.failures {
		if cfg.Failure == nil {
			break
		}
		if err := cfg.Failure(f); err != nil {
			return err
		}
	}
	p.Line, p.Offset = c.last.Number, c.last.Offset
	p.Created, p.Updated, p.Failed = p.Created+c.created, p.Updated+c.updated, p.Failed+int64(len(c.failures))
	if cfg.Progress == nil {
		return nil
	}
	return cfg.Progress(*p)
}
