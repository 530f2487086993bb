package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Queue measures how fast outside workers claim executions and complete them, one
// at a time each.
type Queue struct {
	Count   int
	Workers int
	Size    int // bytes of a job
	Lead    time.Duration
	Goal    float64 // pairs of claim and completion a second
}

// queueBench is a run of it.
type queueBench struct {
	Queue
	e      Env
	name   string
	client *http.Client

	mu     sync.Mutex
	pairs  []time.Duration
	seen   map[string]bool
	twice  int
	missed int
	last   time.Time
}

// Run registers jobs of a queue, all due at one instant, and lets the workers take
// them from there.
func (q Queue) Run(ctx context.Context, e Env) (Report, error) {
	report := Report{Bench: "queue", Machine: ThisMachine(), Params: Values{
		{"count", q.Count}, {"workers", q.Workers}, {"job_bytes", q.Size},
	}}
	due := time.Now().Add(q.Lead).Truncate(time.Second)
	b := &queueBench{Queue: q, e: e, name: runID("queue") + "q", seen: map[string]bool{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: q.Workers}}}
	defer b.client.CloseIdleConnections()
	j := Jobs{
		Plan: Plan{Prefix: runID("queue"), Jobs: q.Count, Slots: 1}, Queue: b.name, Size: q.Size,
		Schedule: func(int) string { return due.UTC().Format(stamp) },
	}
	if _, err := e.imports(ctx, j, 2); err != nil {
		return report, err
	}
	left := time.Until(due)
	if left < 0 {
		return report, fmt.Errorf("registering %d jobs took longer than --lead %s: give more", q.Count, q.Lead)
	}
	e.Note("%d jobs registered, due in %s", q.Count, left.Round(time.Millisecond))
	if err := pause(ctx, left+time.Second); err != nil {
		return report, err
	}
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range q.Workers {
		group.Go(func() error { return b.work(ctx) })
	}
	if err := group.Wait(); err != nil {
		return report, err
	}
	b.conclude(&report, start)
	return report, nil
}

func (b *queueBench) conclude(report *Report, start time.Time) {
	took := Distribute(b.pairs)
	report.metric("completed", float64(len(b.seen)))
	report.metric("seconds", b.last.Sub(start).Seconds())
	report.atLeast("pairs_per_s", float64(len(b.pairs))/b.last.Sub(start).Seconds(), b.Goal)
	report.metric("pair_p50_ms", milliseconds(took.At(0.5)))
	report.metric("pair_p99_ms", milliseconds(took.At(0.99)))
	if b.twice > 0 {
		report.Problems = append(report.Problems, fmt.Sprintf("%d executions were claimed twice", b.twice))
	}
	if b.missed > 0 || len(b.seen) != b.Count {
		report.Problems = append(report.Problems, fmt.Sprintf("%d of %d executions were claimed, and %d completions were refused", len(b.seen), b.Count, b.missed))
	}
}

// work claims and completes until nothing comes for a while.
func (b *queueBench) work(ctx context.Context) error {
	claim := []byte(`{"queue":"` + b.name + `","lease":"1m","wait":"5s"}`)
	for {
		began := time.Now()
		var got struct {
			ExecutionID string `json:"execution_id"`
			Lease       string `json:"lease"`
		}
		status, err := b.post(ctx, "claim", claim, &got)
		switch {
		case err != nil:
			return err
		case status == http.StatusNoContent:
			return nil
		case status != http.StatusOK:
			return fmt.Errorf("the server answered %d to a claim", status)
		}
		status, err = b.post(ctx, got.ExecutionID+"/complete", []byte(`{"status":"succeeded","lease":"`+got.Lease+`"}`), nil)
		if err != nil {
			return err
		}
		b.note(got.ExecutionID, began, status == http.StatusNoContent)
	}
}

func (b *queueBench) note(id string, began time.Time, completed bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[id] {
		b.twice++
	}
	if !completed {
		b.missed++
	}
	b.seen[id], b.last = true, now
	b.pairs = append(b.pairs, now.Sub(began))
}

func (b *queueBench) post(ctx context.Context, path string, body []byte, answer any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.e.Server+"/internal/executions/"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && answer != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, answer)
	}
	return resp.StatusCode, err
}
