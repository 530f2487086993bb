package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
)

// Env is where a benchmark runs.
type Env struct {
	Server string          // base URL
	Sender importer.Sender // the same server, for imports
	Sink   *Sink
	// Cluster: there are more servers than this one, and one may die while
	// deliveries are made. What it had in flight then comes again, under its key.
	Cluster bool
	Note    func(format string, args ...any) // tells the person who waits
}

// Jobs describes the jobs that a benchmark registers.
type Jobs struct {
	Plan     Plan
	URL      string
	Queue    string // claimed from it, instead of sent to URL
	Schedule func(i int) string
	Starts   func(i int) time.Time // nil: no bounds
	Ends     func(i int) time.Time
	Size     int           // bytes of a line; the body of the target fills it up
	Timeout  time.Duration // of an attempt; 0: the server's default
}

const stamp = "2006-01-02T15:04:05.000Z"

// line is job i as one JSON object.
func (j Jobs) line(buf []byte, i int) []byte {
	start := len(buf)
	buf = append(append(append(buf, `{"job_id":"`...), j.Plan.JobID(i)...), `","schedule_expr":"`...)
	buf = append(append(buf, j.Schedule(i)...), '"')
	if j.Starts != nil {
		buf = append(j.Starts(i).UTC().AppendFormat(append(buf, `,"starts_at":"`...), stamp), '"')
		buf = append(j.Ends(i).UTC().AppendFormat(append(buf, `,"ends_at":"`...), stamp), '"')
	}
	if j.Timeout > 0 {
		buf = append(append(append(buf, `,"timeout":"`...), j.Timeout.String()...), '"')
	}
	if j.Queue != "" {
		buf = append(append(append(buf, `,"target":{"queue":{"name":"`...), j.Queue...), `","payload":"`...)
	} else {
		buf = append(append(append(buf, `,"target":{"http":{"url":"`...), j.URL...), `","body":"`...)
	}
	const end = `"}}}`
	for len(buf)-start+len(end) < j.Size {
		buf = append(buf, 'x')
	}
	return append(buf, end...)
}

// OneTime is jobs of a size that are due once, such as those of a spike.
func OneTime(url string, size int) Jobs {
	return Jobs{Plan: Plan{Prefix: runID("spike0"), Jobs: 1, Slots: 1}, URL: url, Size: size, Schedule: far(time.Now())}
}

// BodyLength is how long the body of job i's deliveries is.
func (j Jobs) BodyLength(i int) int {
	bare := j
	bare.Size = 0
	return max(j.Size-len(bare.line(nil, i)), 0)
}

// source yields all jobs as lines of an import.
func (j Jobs) source(yield func(importer.Line) error) error {
	for i := range j.Plan.Jobs {
		if err := yield(importer.Line{Number: int64(i + 1), Body: j.line(make([]byte, 0, max(j.Size, 256)), i)}); err != nil {
			return err
		}
	}
	return nil
}

// imports registers all jobs by import and says how long that took.
func (e Env) imports(ctx context.Context, j Jobs, connections int) (time.Duration, error) {
	var first error
	start := time.Now()
	p, err := importer.Run(ctx, j.source, importer.Config{
		Sender: e.Sender, Connections: connections,
		Failure: func(f importer.Failure) error {
			if first == nil {
				first = fmt.Errorf("line %d: %w", f.Line, f.Error)
			}
			return nil
		},
	})
	took := time.Since(start)
	if err == nil && p.Failed > 0 {
		err = fmt.Errorf("the server refused %d of %d jobs, the first: %w", p.Failed, j.Plan.Jobs, first)
	}
	if err == nil && p.Created != int64(j.Plan.Jobs) {
		err = fmt.Errorf("%d jobs were created instead of %d: were the ids used before?", p.Created, j.Plan.Jobs)
	}
	return took, err
}

// posts registers all jobs by single requests over some connections and
// returns how long each took.
func (e Env) posts(ctx context.Context, j Jobs, connections int) (Distribution, time.Duration, error) {
	var next atomic.Int64
	var mu sync.Mutex
	all := make([]time.Duration, 0, j.Plan.Jobs)
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for range connections {
		group.Go(func() error {
			took, err := e.poster(ctx, j, &next)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return err
		})
	}
	err := group.Wait()
	return Distribute(all), time.Since(start), err
}

// poster is one connection: it takes the next job until there is none.
func (e Env) poster(ctx context.Context, j Jobs, next *atomic.Int64) ([]time.Duration, error) {
	w, err := dialWire(ctx, e.Server, http.MethodPost, "/v1/jobs")
	if err != nil {
		return nil, err
	}
	defer w.close()
	stop := context.AfterFunc(ctx, w.close)
	defer stop()
	var took []time.Duration
	var body []byte
	for {
		i := int(next.Add(1)) - 1
		if i >= j.Plan.Jobs {
			return took, nil
		}
		body = j.line(body[:0], i)
		at := time.Now()
		status, problem, err := w.do(j.Plan.JobID(i), body)
		if err != nil {
			return took, errors.Join(ctx.Err(), err)
		}
		took = append(took, time.Since(at))
		if status != http.StatusCreated {
			return took, fmt.Errorf("the server answered %d to a registration: %s", status, problem)
		}
	}
}

// runID makes the job ids of a run its own.
func runID(name string) string {
	return "bench-" + name + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-"
}
