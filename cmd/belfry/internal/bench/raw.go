package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Raw sends the deliveries of a spike without a scheduler: Go's own client on
// keep-alive connections, with the headers and the body that Belfry sends, to
// the same sink. It is what this machine can do at most in this way.
type Raw struct {
	Count       int // deliveries in a run
	Connections int
	BodyBytes   int
	Runs        int
}

// Run measures, and reports the best run.
func (r Raw) Run(ctx context.Context, sink *Sink) (Report, error) {
	report := Report{Bench: "raw", Machine: ThisMachine(), Params: Values{
		{"count", r.Count}, {"connections", r.Connections}, {"body_bytes", r.BodyBytes}, {"runs", r.Runs},
	}}
	best := 0.0
	var latency Distribution
	for run := range r.Runs {
		perSecond, took, problems, err := r.once(ctx, sink, run)
		if err != nil {
			return report, err
		}
		report.Problems = append(report.Problems, problems...)
		report.metric(fmt.Sprintf("run_%d_per_s", run+1), perSecond)
		if perSecond > best {
			best, latency = perSecond, took
		}
	}
	report.metric("request_p50_ms", milliseconds(latency.At(0.5)))
	report.metric("request_p99_ms", milliseconds(latency.At(0.99)))
	report.metric("best_per_s", best)
	return report, nil
}

func (r Raw) once(ctx context.Context, sink *Sink, run int) (float64, Distribution, []string, error) {
	due := time.Now().Truncate(time.Millisecond)
	plan := Plan{Prefix: runID("raw" + strconv.Itoa(run)), Jobs: r.Count, Slots: 1, First: func(int) time.Time { return due }}
	ledger := NewLedger(plan)
	sink.Use(ledger)
	transport := &http.Transport{MaxIdleConns: r.Connections, MaxIdleConnsPerHost: r.Connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	latencies := make([]time.Duration, r.Count)
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	body := bytes.Repeat([]byte("x"), r.BodyBytes)
	for range r.Connections {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= r.Count {
					return nil
				}
				at := time.Now()
				if err := deliver(ctx, transport, sink.URL(), plan.JobID(i), due, body); err != nil {
					return err
				}
				latencies[i] = time.Since(at)
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, Distribution{}, nil, fmt.Errorf("send raw deliveries: %w", err)
	}
	v := ledger.Judge(time.Second)
	return v.PerSecond(), Distribute(latencies), v.Broken(), nil
}

// deliver is one request as a worker sends it.
func deliver(ctx context.Context, t *http.Transport, url, jobID string, due time.Time, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(body))
	at := due.UTC().Format(stamp)
	key := jobID + "~1~" + due.UTC().Format("20060102T150405.000Z")
	for _, pair := range [...][2]string{
		{"Idempotency-Key", key}, {"Webhook-Id", key},
		{"Belfry-Execution-Id", key}, {"Belfry-Job-Id", jobID}, {"Belfry-Scheduled-For", at}, {"Belfry-Attempt", "1"}, {"Belfry-Epoch", "1"},
		{"Ce-Specversion", "1.0"}, {"Ce-Type", "belfry.execution.due"}, {"Ce-Source", "/belfry"}, {"Ce-Id", key}, {"Ce-Time", at},
		{"User-Agent", "Belfry"}, {"Content-Type", "application/octet-stream"},
	} {
		req.Header[pair[0]] = []string{pair[1]}
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the sink answered %s", resp.Status)
	}
	return nil
}
