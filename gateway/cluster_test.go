package gateway

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// nodes is a cluster of three nodes, one of which is a version behind.
type nodes struct {
	members []api.Member
	format  int
	fails   error // of every method
	drained []string
}

func newNodes() *nodes {
	offset := int64(-12)
	return &nodes{format: 1, members: []api.Member{
		{Node: "n2", Incarnation: "b", Roles: []string{"scheduler"}, Version: "v2", Format: 2, State: api.MemberDraining, Partitions: 5},
		{Node: "n1", Incarnation: "a", Address: "10.0.0.1:8381", Roles: []string{"gateway", "worker"}, Version: "v2", Format: 2, State: api.MemberAlive, ClockOffsetMS: &offset, StartedAt: start, Self: true},
		{Node: "n/3", Incarnation: "c", Version: "v1", Format: 1, State: api.MemberUnheard},
	}}
}

func (n *nodes) Members(context.Context) ([]api.Member, error) { return n.members, n.fails }

func (n *nodes) Partitions(context.Context) ([]api.PartitionOwner, error) {
	return []api.PartitionOwner{{Partition: 0, Node: "n2", Address: "10.0.0.2:8381", Epoch: 7}, {Partition: 1}}, n.fails
}

func (n *nodes) Drain(_ context.Context, node string) error {
	for _, m := range n.members {
		if m.Node == node && n.fails == nil {
			n.drained = append(n.drained, node)
			return nil
		}
	}
	if n.fails == nil {
		return fmt.Errorf("drain: %w", ErrNoMember)
	}
	return n.fails
}

func (n *nodes) Format(context.Context) (api.ClusterFormat, error) {
	return FormatOf(n.format, n.members), nil
}

func (n *nodes) RaiseFormat(ctx context.Context, to int) (api.ClusterFormat, error) {
	if n.fails != nil {
		return api.ClusterFormat{}, n.fails
	}
	n.format = to
	return n.Format(ctx)
}

func clustered(t *testing.T) (*bundle, *nodes) {
	n := newNodes()
	return setup(t, func(c *Config) { c.Cluster = n }), n
}

func TestMembersAndPartitions(t *testing.T) {
	t.Parallel()
	b, n := clustered(t)
	r := b.do("GET", "/v1/cluster/members", "").want(http.StatusOK)
	got := read[[]api.Member](r)
	want := []api.Member{n.members[2], n.members[1], n.members[0]} // by name
	want[0].Roles = []string{}
	if !reflect.DeepEqual(got, want) || n.members[0].Node != "n2" {
		t.Errorf("members %+v\nwant %+v", got, want)
	}
	if strings.Count(r.text, "clock_offset_ms") != 1 || strings.Count(r.text, `"self":true`) != 1 {
		t.Errorf("what is not known is shown: %s", r.text)
	}
	r = b.do("GET", "/v1/cluster/partitions", "").want(http.StatusOK)
	if r.text != `[{"partition":0,"node":"n2","address":"10.0.0.2:8381","epoch":7},{"partition":1,"node":"","address":"","epoch":0}]` {
		t.Errorf("partitions %s", r.text)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	b, n := clustered(t)
	for range 2 {
		d := read[api.Draining](b.do("POST", "/v1/cluster/members/n2/drain", "").want(http.StatusAccepted))
		if d != (api.Draining{Node: "n2", State: "draining"}) {
			t.Errorf("answer %+v", d)
		}
	}
	b.do("POST", "/v1/cluster/members/n%2F3/drain", `{}`).want(http.StatusAccepted)
	b.do("POST", "/v1/cluster/members/n2/drain", `{"wait":true}`).refused("body.wait")
	if p := b.do("POST", "/v1/cluster/members/n4/drain", "").problem(api.CodeNoMember); !strings.Contains(p.Detail, `"n4"`) {
		t.Errorf("it does not name the node: %s", p.Detail)
	}
	if want := []string{"n2", "n2", "n/3"}; !reflect.DeepEqual(n.drained, want) {
		t.Errorf("drained %v, want %v", n.drained, want)
	}
}

func TestRaiseTheFormat(t *testing.T) {
	t.Parallel()
	b, n := clustered(t)
	put := func(body string) response { return b.do("PUT", "/v1/cluster/format", body) }
	before := api.ClusterFormat{Format: 1, Known: 1, Newest: 2, Behind: []api.NodeFormat{{Node: "n/3", Format: 1}}}
	if f := read[api.ClusterFormat](b.do("GET", "/v1/cluster/format", "").want(http.StatusOK)); !reflect.DeepEqual(f, before) {
		t.Errorf("format %+v, want %+v", f, before)
	}
	p := put(`{"format":2}`).problem(api.CodeFormatUnknown)
	if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Message, "n/3 knows formats up to 1") {
		t.Errorf("who holds it back is not said: %+v", p.Errors)
	}
	put(`{"format":3}`).problem(api.CodeFormatRefused)
	put(`{"format":-1}`).problem(api.CodeFormatRefused)
	put(`{}`).refused("body.format")
	put(`{"format":1.5}`).refused("body.format")
	put(`{"format":1,"force":true}`).refused("body.force")
	if f := read[api.ClusterFormat](put(`{"format":1}`).want(http.StatusOK)); n.format != 1 || !reflect.DeepEqual(f, before) {
		t.Errorf("what it is already: %+v", f)
	}

	n.members[2].Format = 2
	for range 2 {
		if f := read[api.ClusterFormat](put(`{"format":2}`).want(http.StatusOK)); !reflect.DeepEqual(f, api.ClusterFormat{Format: 2, Known: 2, Newest: 2}) {
			t.Errorf("raised: %+v", f)
		}
	}
	put(`{"format":1}`).problem(api.CodeFormatRefused)
}

func TestFormatOf(t *testing.T) {
	t.Parallel()
	member := func(node string, format int) api.Member { return api.Member{Node: node, Format: format} }
	for name, c := range map[string]struct {
		members []api.Member
		want    api.ClusterFormat
	}{
		"nobody":         {nil, api.ClusterFormat{Format: 2, Known: 2, Newest: 2}},
		"one":            {[]api.Member{member("a", 3)}, api.ClusterFormat{Format: 2, Known: 3, Newest: 3}},
		"not said":       {[]api.Member{member("b", 3), member("a", 0)}, api.ClusterFormat{Format: 2, Known: 0, Newest: 3, Behind: []api.NodeFormat{{Node: "a", Format: 0}}}},
		"three versions": {[]api.Member{member("c", 2), member("a", 4), member("b", 3)}, api.ClusterFormat{Format: 2, Known: 2, Newest: 4, Behind: []api.NodeFormat{{Node: "b", Format: 3}, {Node: "c", Format: 2}}}},
	} {
		if got := FormatOf(2, c.members); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	three := FormatOf(2, []api.Member{member("a", 4), member("b", 3), member("c", 3)})
	if err := checkRaise(three, 3); err != nil {
		t.Errorf("a format that all know, and not the newest: %v", err)
	}
}

func TestAClusterThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b, n := clustered(t)
	n.members[2].Format = 2
	for _, c := range []struct {
		fails error
		code  string
	}{
		{job.ErrUnavailable, api.CodeStoreAway}, {job.ErrNoOwner, api.CodeNodeAway}, {context.DeadlineExceeded, api.CodeNodeAway},
		{persistence.ErrInDoubt, api.CodeStoreAway}, {persistence.ErrFormatMoved, api.CodeFormatMoved}, {fmt.Errorf("broken"), api.CodeInternal},
	} {
		n.fails = c.fails
		b.do("PUT", "/v1/cluster/format", `{"format":2}`).problem(c.code)
		b.do("POST", "/v1/cluster/members/n2/drain", "").problem(c.code)
		b.do("GET", "/v1/cluster/members", "").problem(c.code)
		b.do("GET", "/v1/cluster/partitions", "").problem(c.code)
	}
}

// slow never answers by itself.
type slow struct{ *nodes }

func (s slow) Drain(ctx context.Context, _ string) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestANodeThatIsSilentIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Cluster, c.Limits.Ask = slow{newNodes()}, 10*time.Millisecond })
	b.do("POST", "/v1/cluster/members/n1/drain", "").problem(api.CodeNodeAway)
}

func TestAProcessAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, address := range []string{"GET members", "GET partitions", "POST members/n1/drain", "GET format", "PUT format"} {
		method, path, _ := strings.Cut(address, " ")
		b.do(method, "/v1/cluster/"+path, "").problem(api.CodeNoCluster)
	}
}
