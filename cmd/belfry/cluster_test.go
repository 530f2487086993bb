package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/gateway"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

// threeNodes is a cluster behind a real gateway: n1, which is asked, n2, and n3,
// a version behind. A node that is drained owns two partitions less at each
// look, and is gone after it owned none.
type threeNodes struct {
	mu      sync.Mutex
	members []api.Member
	format  int
	stuck   bool // what is drained keeps what it owns
}

func (n *threeNodes) Members(context.Context) ([]api.Member, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := append([]api.Member(nil), n.members...)
	n.members = n.members[:0]
	for _, m := range out {
		gone := m.State == api.MemberDraining && m.Partitions == 0
		if m.State == api.MemberDraining && !n.stuck {
			m.Partitions = max(0, m.Partitions-2)
		}
		if !gone {
			n.members = append(n.members, m)
		}
	}
	return out, nil
}

func (n *threeNodes) Partitions(context.Context) ([]api.PartitionOwner, error) {
	var out []api.PartitionOwner
	for p, node := range []string{"n1", "n1", "n2", "n1", "", "n2", "n1"} {
		o := api.PartitionOwner{Partition: int32(p), Node: node}
		if node != "" {
			o.Address, o.Epoch = node+":7380", int64(40+p)
		}
		out = append(out, o)
	}
	return out, nil
}

func (n *threeNodes) Drain(_ context.Context, node string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.members {
		if n.members[i].Node == node {
			n.members[i].State = api.MemberDraining
			return nil
		}
	}
	return gateway.ErrNoMember
}

func (n *threeNodes) Format(context.Context) (api.ClusterFormat, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return gateway.FormatOf(n.format, n.members), nil
}

func (n *threeNodes) RaiseFormat(ctx context.Context, to int) (api.ClusterFormat, error) {
	n.mu.Lock()
	n.format = to
	n.mu.Unlock()
	return n.Format(ctx)
}

// noOwners and noStore are the parts of a gateway that no cluster command asks.
type (
	noOwners struct{ gateway.Owners }
	noStore  struct{ gateway.Store }
)

func (noOwners) Partitions() int { return 16 }
func (noStore) Healthy() error   { return nil }

// cluster starts a gateway, and returns how to run a command against it.
func cluster(t *testing.T) (*threeNodes, func(args ...string) (int, string, string)) {
	t.Helper()
	offset := int64(-7)
	n := &threeNodes{format: 1, members: []api.Member{
		{Node: "n1", Incarnation: "a", Address: "10.0.0.1:7380", Roles: []string{"gateway", "scheduler"}, Version: "v2", Format: 2, State: api.MemberAlive, Partitions: 4, ClockOffsetMS: &offset, StartedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Self: true},
		{Node: "n2", Incarnation: "b", Format: 2, State: api.MemberAlive, Partitions: 5},
		{Node: "n3", Incarnation: "c", Roles: []string{"worker"}, Format: 1, State: api.MemberUnheard},
	}}
	g, err := gateway.New(gateway.Config{Owners: noOwners{}, Store: noStore{}, Cluster: n, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Handler())
	t.Cleanup(func() { g.Close(); server.Close() })
	return n, func(args ...string) (int, string, string) {
		return command(t, append([]string{"cluster", "--server", server.URL}, args...)...)
	}
}

// expect checks a command's code, and that its output has each of some texts.
func expect(t *testing.T, run func(...string) (int, string, string), line string, code int, texts ...string) {
	t.Helper()
	got, stdout, stderr := run(strings.Fields(line)...)
	if got != code {
		t.Errorf("%s: exit code %d, want %d: %s", line, got, code, stderr)
	}
	squeezed := strings.Join(strings.Fields(stdout+stderr), " ")
	for _, text := range texts {
		if !strings.Contains(squeezed, text) {
			t.Errorf("%s: no %q in\n%s%s", line, text, stdout, stderr)
		}
	}
}

func TestClusterTables(t *testing.T) {
	t.Parallel()
	_, run := cluster(t)
	expect(t, run, "members", exitOK,
		"NODE STATE PARTITIONS ROLES ADDRESS CLOCK VERSION FORMAT STARTED",
		"n1 alive 4 gateway,scheduler 10.0.0.1:7380 -7 ms v2 2 2026-03-01T12:00:00Z",
		"n3 unheard 0 worker - - - 1 -")
	expect(t, run, "members -o name", exitOK, "n1 n2 n3")
	expect(t, run, "members -o json", exitOK, `"clock_offset_ms": -7`, `"state": "unheard"`)
	expect(t, run, "partitions", exitOK, "0 n1 40 n1:7380 1 n1 41 n1:7380 2 n2 42", "4 - - -")
	expect(t, run, "partitions --by-node", exitOK, "NODE COUNT ADDRESS PARTITIONS - 1 - 4 n1 4 n1:7380 0-1,3,6 n2 2 n2:7380 2,5")
	expect(t, run, "partitions --by-node -o jsonl", exitOK, `{"node":"n2","address":"n2:7380","count":2,"partitions":[2,5]}`)
	expect(t, run, "members n1", exitUsage, "one more")
	expect(t, run, "membres", exitUsage, `did you mean "members"`)
}

func TestClusterDrain(t *testing.T) {
	t.Parallel()
	n, run := cluster(t)
	expect(t, run, "drain", exitUsage, "needs the name of a node")
	expect(t, run, "drain n9", exitNotFound, `there is no node "n9"`)
	expect(t, run, "drain n2 --wait", exitOK, "n2 draining", "n2 has been told", "n2 owns 5 partitions", "n2 owns 3 partitions", "n2 owns 0 partitions")
	expect(t, run, "drain n3 --wait -o name", exitOK, "n3")
	n.mu.Lock()
	n.stuck = true
	n.mu.Unlock()
	expect(t, run, "drain n1 --wait --wait-timeout 300ms", exitUnavailable, "n1 still owns 4 partitions after 300ms")
	expect(t, run, "drain n1", exitOK, "n1 draining")
}

func TestClusterFormat(t *testing.T) {
	t.Parallel()
	n, run := cluster(t)
	for _, line := range []string{"format", "format show"} {
		expect(t, run, line, exitOK, "Format 1 Known by all 1 Newest known 2 Behind n3 (1)")
	}
	expect(t, run, "format raise 2", exitConflict, "Not every node knows the format", "node n3 knows formats up to 1")
	expect(t, run, "format raise 3", exitError, "no node knows format 3")
	expect(t, run, "format raise", exitUsage, "needs the format")
	expect(t, run, "format raise two", exitUsage, "write a number")
	expect(t, run, "format rise 2", exitUsage, `did you mean "raise"`)
	n.mu.Lock()
	n.members[2].Format = 2
	n.mu.Unlock()
	expect(t, run, "format raise 2", exitOK, "Format 2 Known by all 2 Newest known 2", "the nodes write format 2")
	expect(t, run, "format raise 1", exitError, "only ever raised")
	expect(t, run, "format -o json", exitOK, `{ "format": 2, "known": 2, "newest": 2 }`)
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[string][]int32{"": nil, "3": {3}, "-1-1": {-1, 0, 1}, "0-1,3,5-7": {0, 1, 3, 5, 6, 7}} {
		if got := runs(numbers); got != want {
			t.Errorf("%v: %s, want %s", numbers, got, want)
		}
	}
}
