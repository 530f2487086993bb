package chaos

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// TestServiceInTheCluster: another service joins a node, registers jobs by
// message, has its actors called by them, runs slots again, and reads what became
// of that. The node is a process of its own, killed and started again in the middle.
func TestServiceInTheCluster(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	gossip := net.JoinHostPort(host, gossipPort)
	node := &Process{DataDir: t.TempDir(), Args: []string{
		"--partitions", "16", "--node-name", "n1", "--cluster-listen", gossip, "--cluster-name", "service-test",
	}}
	start(t, node)

	got := make(chan cluster.Execution, 1000)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	service, err := cluster.Connect(ctx, cluster.ClientConfig{
		Name: "shop", Cluster: "service-test", Join: []string{gossip}, Listen: host + ":0", Gossip: host + ":0",
		Kinds: cluster.Kinds{Handlers: map[string]cluster.Handler{
			"cart": func(_ context.Context, e cluster.Execution) error { got <- e; return nil },
			"sulk": func(context.Context, cluster.Execution) error { return cluster.Final(errors.New("not today")) },
		}},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := service.Close(ctx); err != nil {
			t.Error(err)
		}
	}()

	tick, err := service.Register(ctx, "tick", job.Spec{
		Schedule: job.Timing{Expr: "@every 1s"},
		Target:   job.Target{Actor: &job.ActorTarget{Kind: "cart", Identity: "17", Payload: []byte("sweep")}},
	})
	if err != nil || !tick.Created || tick.Status != job.Active {
		t.Fatalf("register: %+v, %v", tick, err)
	}
	first := receive(ctx, t, got)
	if first.JobID != "tick" || first.Identity != "17" || string(first.Payload) != "sweep" || first.Key == "" {
		t.Errorf("received %+v", first)
	}

	node.Kill()
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	for later := first; later.Epoch == first.Epoch; { // the next owner's
		later = receive(ctx, t, got)
	}

	if _, err := service.Create(ctx, "moody", job.Spec{
		Schedule: job.Timing{Expr: "0 0 1 1 *"}, Target: job.Target{Actor: &job.ActorTarget{Kind: "sulk", Identity: "x"}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Trigger(ctx, "moody"); err != nil {
		t.Fatal(err)
	}
	if r := decided(ctx, t, service, "moody"); r.Status != "failed" || r.Attempts != 1 {
		t.Errorf("the refused execution is recorded as %+v", r)
	}
	if r := decided(ctx, t, service, "tick"); r.Status != "succeeded" {
		t.Errorf("the execution is recorded as %+v", r)
	}
	fill, err := service.Backfill(ctx, "tick", cluster.Range{From: first.ScheduledFor, To: first.ScheduledFor.Add(2 * time.Second)})
	if err != nil || fill.Total != 2 {
		t.Fatalf("backfill: %+v, %v", fill, err)
	}
	for e := first; e.ID == first.ID || e.Key != first.Key; { // the slot of the first, again, under its key
		e = receive(ctx, t, got)
	}
	if err := service.Delete(ctx, "tick"); err != nil {
		t.Error(err)
	}
	if _, err := service.Get(ctx, "tick"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a deleted job is %v", err)
	}
}

func receive(ctx context.Context, t *testing.T, got <-chan cluster.Execution) cluster.Execution {
	t.Helper()
	select {
	case e := <-got:
		return e
	case <-ctx.Done():
		t.Fatal("no execution comes")
		return cluster.Execution{}
	}
}

// decided waits for an execution of a job that has ended, and returns the
// oldest.
func decided(ctx context.Context, t *testing.T, c *cluster.Client, id string) cluster.Run {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		runs, _, err := c.Executions(ctx, id, 500, cluster.Place{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(runs); n > 0 && !runs[n-1].FinishedAt.IsZero() {
			return runs[n-1]
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("job %s has no decided execution: %+v", id, runs)
		}
	}
}
