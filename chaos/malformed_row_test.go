package chaos

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/embedded"
)

// TestMalformedRow: the row of one job of 1,001 is spoilt in the store while the
// node is down. When it is back the thousand run, and the one says what it is. It
// can be registered anew, and runs.
func TestMalformedRow(t *testing.T) {
	t.Parallel()
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	l.register("good", 1000, 10*time.Second, 10*time.Second, l.ledger.URL)
	target, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	bad := map[string]any{"schedule_expr": "@every 1s", "target": target.URL}
	if err := node.send("PUT", "/v1/jobs/bad", "", bad, 201, nil); err != nil {
		t.Fatal(err)
	}
	l.seconds(3)
	f := Fault{Kind: Killed, At: time.Now()}
	node.Kill()
	f.End = time.Now()
	spoil(t, node.DataDir, "bad")
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	l.history.Faults = append(l.history.Faults, f)
	l.seconds(11) // each of them has its turn
	var is struct {
		Status string
		Reason string `json:"status_reason"`
	}
	if _, err := node.get("/v1/jobs/bad", &is); err != nil || is.Status != "error" || is.Reason == "" {
		t.Errorf("the spoilt job: %+v, %v", is, err)
	}
	if err := node.send("PUT", "/v1/jobs/bad", "", bad, 201, &is); err != nil || is.Status != "active" {
		t.Errorf("registered anew: %+v, %v", is, err)
	}
	if !target.WaitFor(target.Len()+1, slow(t, 10*time.Second)) {
		t.Error("registered anew it does not run")
	}
	l.finish()
}

// spoil puts nonsense where the state of a job is, as whoever owns its partition.
func spoil(t *testing.T, dir, id string) {
	t.Helper()
	s, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	seen, err := s.ReadFence(t.Context(), partitionOf(id))
	if err != nil || seen.Epoch == 0 {
		t.Fatalf("the fence of partition %d: %+v, %v", partitionOf(id), seen, err)
	}
	held, err := s.Acquire(t.Context(), seen, persistence.Owner{Node: "vandal", Incarnation: uuid.New()}, uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	row := persistence.Row{Slice: job.SliceOf(id, 16), JobID: id, Revision: 1, Status: job.Active, State: []byte{0xff, 0xff}}
	if _, err := s.Commit(t.Context(), held, persistence.Batch{OpID: uuid.New(), LastNumber: held.LastNumber, Rows: []persistence.Row{row}}); err != nil {
		t.Fatal(err)
	}
}
