package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestQueueOnNodes: outside workers claim from one queue through all gateways of
// three nodes, while the node of its broker is killed, and another one. Some work
// for longer than their lease and extend it, and some are silent for longer and
// complete late. Every occurrence is done once, tokens grow, and an old one is
// refused everywhere.
func TestQueueOnNodes(t *testing.T) {
	t.Parallel()
	const queue = "q"
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.register("queued", 20, time.Second, time.Second, map[string]any{"queue": queue})
	for i := range l.history.Jobs {
		l.history.Jobs[i].MayFail = true // an attempt, whose worker is silent
	}
	w := newClaimers(t, c, queue, 6)
	w.flow(40)
	broker := brokerOf(c, queue)
	other := c.All[(slices.Index(c.All, broker)+1)%3]
	for _, n := range []*Node{broker, other} {
		over := l.hit(Killed, n)
		n.Kill()
		over()
		if n == other {
			c.WaitTaken(n, slow(t, RecoveryBound))
		}
		l.join(c, n)
		l.recovered(c)
		w.flow(40)
	}
	h := &l.history
	until := l.pause()
	for i := range h.Jobs {
		h.Jobs[i].Until = until
	}
	h.Records = l.records()
	w.rest()
	h.Takeovers = c.Takeovers()
	h.Receipts, h.Leases = w.receipts, w.leases
	l.report()
	for _, records := range h.Records {
		for _, r := range records {
			if r.Status != "succeeded" {
				t.Errorf("%s ended as %s: %s", r.ExecutionID, r.Status, r.Reason)
			}
		}
	}
	w.check(broker, *h)
}

// brokerOf is the node that has the broker of a queue while all are alive.
func brokerOf(c *Nodes, queue string) *Node {
	var names []string
	for _, n := range c.All {
		names = append(names, n.Name)
	}
	return c.All[cluster.Rendezvous("queue\x00"+queue, names)]
}

// claimers are outside workers of a queue, each of which asks all nodes in turn.
type claimers struct {
	t     *testing.T
	c     *Nodes
	nodes []*Process
	queue string
	stop  context.CancelFunc
	work  sync.WaitGroup

	mu       sync.Mutex
	leases   []check.Lease
	receipts []Receipt // of each grant
	through  []int     // the node that answered it
	done     int       // completions that were accepted
	late     int       // that were refused to a worker that had been silent
}

// grant is what a claim was answered with.
type grant struct {
	Execution    string    `json:"execution_id"`
	Job          string    `json:"job_id"`
	Lease        string    `json:"lease"`
	Key          string    `json:"key"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Attempt      int       `json:"attempt"`

	number int // of its receipt
}

const (
	queueLease = 3 * time.Second
	queueWait  = 5 * time.Second
	// queueSilence ends while another worker holds the execution: after the
	// lease, the second before the next attempt, and part of that one's work.
	queueSilence = queueLease + 2500*time.Millisecond
)

func newClaimers(t *testing.T, c *Nodes, queue string, count int) *claimers {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	w := &claimers{t: t, c: c, queue: queue, stop: stop}
	for _, n := range c.All {
		w.nodes = append(w.nodes, &Process{Listen: n.Listen})
	}
	for i := range count {
		w.work.Go(func() { w.claim(ctx, i) })
	}
	return w
}

// claim claims and completes until the end. Of six, two work long now and then,
// and two are silent. Another attempt always works long: whoever had the one
// before completes it meanwhile, too late.
func (w *claimers) claim(ctx context.Context, i int) {
	const rarely = 8
	worker := fmt.Sprint("claimer-", i)
	for at, n := i, 0; ctx.Err() == nil; at++ {
		var g grant
		code, err := w.post(ctx, at, "claim", map[string]any{"queue": w.queue, "worker": worker, "lease": queueLease.String(), "wait": queueWait.String()}, &g)
		if err != nil || code != http.StatusOK {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		w.granted(&g, worker, at%len(w.nodes))
		n++
		silent := i%3 == 2 && n%rarely == 0 && g.Attempt == 1
		switch {
		case silent:
			pause(ctx, queueSilence)
		case g.Attempt > 1 || i%3 == 1 && n%rarely == 0:
			w.extend(ctx, at, &g)
		}
		w.complete(at, &g, worker, silent)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// granted notes a grant.
func (w *claimers) granted(g *grant, worker string, node int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	g.number = len(w.receipts)
	w.leases = append(w.leases, check.Lease{Execution: g.Execution, Worker: worker, Token: tokenOf(w.t, g.Lease), At: now})
	w.receipts = append(w.receipts, Receipt{Execution: g.Execution, Job: g.Job, Key: g.Key, ScheduledFor: g.ScheduledFor, Attempt: g.Attempt, Epoch: tokenOf(w.t, g.Lease).Epoch, Received: now})
	w.through = append(w.through, node)
}

// extend works for longer than the lease, and says so in time.
func (w *claimers) extend(ctx context.Context, at int, g *grant) {
	for range 4 {
		pause(ctx, queueLease/3)
		w.until(at, g.Execution+"/heartbeat", map[string]any{"lease": g.Lease})
	}
}

// complete says that the work is done, until it is answered.
func (w *claimers) complete(at int, g *grant, worker string, silent bool) {
	asked := time.Now()
	code := w.until(at, g.Execution+"/complete", map[string]any{"lease": g.Lease, "status": "succeeded"})
	w.mu.Lock()
	defer w.mu.Unlock()
	accepted := code == http.StatusNoContent
	w.leases = append(w.leases, check.Lease{Execution: g.Execution, Worker: worker, Token: tokenOf(w.t, g.Lease), At: asked, Complete: true, Accepted: accepted})
	r := &w.receipts[g.number]
	r.Answered = time.Now()
	switch {
	case accepted:
		r.Status = http.StatusOK
		w.done++
	case silent:
		w.late++
	}
}

// until asks one node after another until one has answered for good: whatever
// was done before an answer was lost, the same again has the same answer.
func (w *claimers) until(at int, path string, body any) int {
	for end := time.Now().Add(anyWithin); time.Now().Before(end); at++ {
		code, err := w.post(context.Background(), at, path, body, nil)
		if err == nil && code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests {
			if code >= 300 && code != http.StatusConflict {
				w.t.Errorf("%s is answered with %d", path, code)
			}
			return code
		}
		<-time.After(20 * time.Millisecond)
	}
	w.t.Errorf("%s is not answered", path)
	return 0
}

// post sends a request to a node, and reads what 200 is answered with.
func (w *claimers) post(ctx context.Context, at int, path string, body, into any) (code int, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.nodes[at%len(w.nodes)].URL()+"/internal/executions/"+path, bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := api.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, into)
	}
	return resp.StatusCode, err
}

// tokenOf reads a lease: the epoch and a number, to base 36.
func tokenOf(t *testing.T, lease string) check.Token {
	epoch, number, _ := strings.Cut(lease, "-")
	e, err := strconv.ParseInt(epoch, 36, 64)
	n, err2 := strconv.ParseInt(number, 36, 64)
	if err := cmp.Or(err, err2); err != nil {
		t.Errorf("lease %q: %v", lease, err)
	}
	return check.Token{Epoch: e, Counter: n}
}

// flow waits for so many more completions.
func (w *claimers) flow(n int) {
	w.t.Helper()
	so := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.done
	}
	want := so() + n
	w.c.Await(fmt.Sprintf("%d more are completed", n), slow(w.t, time.Minute), func() (any, bool) { return so(), so() >= want })
}

// rest ends the work.
func (w *claimers) rest() {
	w.stop()
	w.work.Wait()
}

// check wants that every gateway has given claims, also of what another node owns
// and a third one's broker knew of; that silent workers came too late; and that no
// gateway takes an old token.
func (w *claimers) check(broker *Node, h check.History) {
	w.t.Helper()
	given, far := map[string]int{}, 0
	newest := map[string]check.Token{}
	for i, r := range w.receipts {
		node := w.c.All[w.through[i]]
		given[node.Name]++
		if node != broker && ownerAt(h, r) != node.Name && ownerAt(h, r) != broker.Name {
			far++
		}
	}
	for _, l := range w.leases {
		if t := newest[l.Execution]; !l.Complete && (t.Epoch < l.Token.Epoch || t.Epoch == l.Token.Epoch && t.Counter < l.Token.Counter) {
			newest[l.Execution] = l.Token
		}
	}
	old := 0
	for _, l := range w.leases {
		if l.Complete || l.Token == newest[l.Execution] {
			continue
		}
		lease := strconv.FormatInt(l.Token.Epoch, 36) + "-" + strconv.FormatInt(l.Token.Counter, 36)
		for at := range w.nodes {
			if code := w.until(at, l.Execution+"/complete", map[string]any{"lease": lease, "status": "succeeded"}); code != http.StatusConflict {
				w.t.Errorf("%s: the old lease %s is answered with %d", l.Execution, lease, code)
			}
		}
		old++
	}
	w.t.Logf("claims by gateway: %v, %d of them far from owner and broker; %d completed, %d came too late, %d old leases", given, far, w.done, w.late, old)
	if len(given) != len(w.nodes) || far == 0 || w.late == 0 || old == 0 {
		w.t.Error("not all that was to be tried has happened")
	}
}

// ownerAt is who owned a receipt's partition when it came.
func ownerAt(h check.History, r Receipt) (node string) {
	for _, o := range h.Takeovers {
		if o.Partition == partitionOf(r.Job) && o.At.Before(r.Received) {
			node = o.Node
		}
	}
	return node
}
