package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestC119ManyClaimers: 64 workers and 5,000 executions of one queue, all due at
// once and all in one partition. Each is granted once and completed, at its first
// attempt.
func TestC119ManyClaimers(t *testing.T) {
	const workers, executions = 64, 5000
	b := setup(t)
	b.cfg.OnEvent = func(*belfryv1.Event) {}
	b.start()
	defer b.stop()
	b.due(executions)
	c := &claimers{url: b.node.URL() + "/internal/executions/", left: executions, granted: map[string]int{}}
	c.client.Transport = &http.Transport{MaxIdleConnsPerHost: workers}
	defer c.client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(t.Context())
	for n := range workers {
		group.Go(func() error { return c.work(ctx, fmt.Sprint("w", n), 2+n%4) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(c.granted) != executions {
		t.Errorf("%d executions were granted", len(c.granted))
	}
	for id, n := range c.granted {
		if n != 1 {
			t.Errorf("%s was granted %d times", id, n)
		}
	}
	if n := b.jobs(string(job.Finished)); n != executions {
		t.Errorf("%d jobs are finished", n)
	}
}

// jobs is how many jobs are in a state.
func (b *bench) jobs(state string) int {
	b.t.Helper()
	n := 0
	for path := "/v1/jobs?page_size=500&state=" + state; path != ""; {
		resp, err := http.Get(b.node.URL() + path)
		if err != nil {
			b.t.Fatal(err)
		}
		var page []json.RawMessage
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil {
			b.t.Fatal(err)
		}
		n += len(page)
		path, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	}
	return n
}

// due imports jobs of one partition that run once, at once, for outside workers.
func (b *bench) due(n int) {
	b.t.Helper()
	var lines strings.Builder
	for i, made := 0, 0; made < n; i++ {
		id := fmt.Sprint("claim", i)
		if job.PartitionOf(id, b.cfg.Partitions) == 0 {
			made++
			fmt.Fprintf(&lines, `{"job_id":%q,"schedule_expr":"2026-01-01T00:00:00Z","past":"run_now","target":{"queue":"hot"},"timeout":"1h"}`+"\n", id)
		}
	}
	resp, err := http.Post(b.node.URL()+"/v1/jobs:import", "application/x-ndjson", strings.NewReader(lines.String()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if created := strings.Count(string(text), `"created"`); err != nil || created != n {
		b.t.Fatalf("%d jobs were created, error %v: %.1000s", created, err, text)
	}
}

// claimers are the workers of a queue.
type claimers struct {
	url    string
	client http.Client

	mu      sync.Mutex
	granted map[string]int // by execution
	left    int            // that are not completed
}

// work claims and completes until all is done.
func (c *claimers) work(ctx context.Context, worker string, most int) error {
	for c.remaining(0) > 0 {
		var got []struct {
			ExecutionID string `json:"execution_id"`
			Lease       string `json:"lease"`
			Attempt     int    `json:"attempt"`
		}
		claim := map[string]any{"queue": "hot", "worker": worker, "max": most, "lease": "5m", "wait": "1s"}
		if err := c.post(ctx, "claim", claim, &got); err != nil {
			return err
		}
		for _, g := range got {
			if c.grant(g.ExecutionID); g.Attempt != 1 {
				return fmt.Errorf("%s is at attempt %d", g.ExecutionID, g.Attempt)
			}
			if err := c.post(ctx, g.ExecutionID+"/complete", map[string]any{"status": "succeeded", "lease": g.Lease}, nil); err != nil {
				return err
			}
			c.remaining(1)
		}
	}
	return nil
}

func (c *claimers) grant(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted[id]++
}

// remaining is how many executions are left when so many more are completed.
func (c *claimers) remaining(done int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left -= done
	return c.left
}

// post asks something of the workers' API. What nobody waits for is no answer.
func (c *claimers) post(ctx context.Context, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s was answered %d: %s", path, resp.StatusCode, text)
	case into != nil:
		return json.Unmarshal(text, into)
	}
	return nil
}
