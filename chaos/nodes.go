package chaos

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TTL is how long a node may be silent before others take what it owns: the
// default of the product.
const TTL = 3 * time.Second

// RecoveryBound is how long after a fault has ended everything is as before.
const RecoveryBound = 2*TTL + 2*time.Second

// Node is a process of a cluster. Its name outlives it; its address may change.
type Node struct {
	Process
	Name  string
	Host  string
	Roles string   // "": all
	Extra []string // more arguments

	planned bool // it was asked to stop, or not to run
}

// Nodes is a cluster on one database. Its verbs fail the test, and belong into
// the test's own goroutine.
type Nodes struct {
	T        testing.TB
	Bin      string
	Database []string // arguments that name it
	All      []*Node
	// Reached narrows the nodes that requests of the test go to; nil: all.
	Reached func(*Node) bool

	network *loopback

	mu        sync.Mutex
	takeovers []Takeover // as the logs have them, at the time when the line was written
}

// OnDatabase are the arguments of a node whose jobs are in a keyspace of their
// own.
func OnDatabase(db *cassandra.Cluster, keyspace string) []string {
	return []string{
		"--store", "cql", "--cql-hosts", strings.Join(db.Hosts(), ","), "--cql-local-dc", db.LocalDC(),
		"--cql-keyspace", keyspace, "--partitions", "16",
	}
}

// NewNodes prepares a cluster of so many nodes, chaos-1, chaos-2 and so on. None runs yet.
// They end with the test; when it fails it shows the end of their logs.
func NewNodes(t testing.TB, db *cassandra.Cluster, count int) *Nodes {
	t.Helper()
	bin, err := Built()
	if err != nil {
		t.Fatal(err)
	}
	keyspace := "c" + strings.ToLower(rand.Text()[:12])
	c := &Nodes{T: t, Bin: bin, Database: OnDatabase(db, keyspace), network: newLoopback(t)}
	t.Cleanup(c.end)
	for range count {
		c.Add("")
	}
	return c
}

// Add makes one more node, with roles; "": all of them. It does not run yet.
func (c *Nodes) Add(roles string, extra ...string) *Node {
	n := &Node{Name: "chaos-" + strconv.Itoa(len(c.All)+1), Roles: roles, Extra: extra, planned: true}
	n.Bin = c.Bin
	c.All = append(c.All, n)
	c.Readdress(n)
	return n
}

// Readdress gives a node that does not run another address.
func (c *Nodes) Readdress(n *Node) {
	n.Host = c.network.host()
	n.Listen = net.JoinHostPort(n.Host, apiPort)
}

// end kills what still runs.
func (c *Nodes) end() {
	for _, n := range c.All {
		if c.T.Failed() && n.cmd != nil {
			c.T.Logf("the log of %s (%s) ends with:\n%s", n.Name, n.Host, lastLines(n.Log(), 60))
		}
	}
	for _, n := range c.All {
		n.Kill()
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

// arguments name the cluster to a node.
func (c *Nodes) arguments(n *Node) []string {
	var join []string
	for _, other := range c.All {
		if len(join) < 3 && (other == n || !other.planned) { // some are enough
			join = append(join, other.Host)
		}
	}
	args := append(slices.Clone(c.Database),
		"--node-name", n.Name, "--cluster-listen", net.JoinHostPort(n.Host, gossipPort), "--actor-listen", net.JoinHostPort(n.Host, actorPort),
		"--join", strings.Join(join, ","), "--ttl", TTL.String(), "--log-format", "json")
	if n.Roles != "" {
		args = append(args, "--roles", n.Roles)
	}
	return append(args, n.Extra...)
}

// Launch starts nodes and does not wait.
func (c *Nodes) Launch(nodes ...*Node) {
	c.T.Helper()
	for _, n := range nodes {
		n.planned = false
	}
	for _, n := range nodes {
		n.Args = c.arguments(n)
		n.Line = func(line []byte) { c.note(n.Name, line) }
		if err := n.Launch(); err != nil {
			c.T.Fatal(err)
		}
	}
}

// Start starts nodes and waits until each is ready.
func (c *Nodes) Start(nodes ...*Node) {
	c.T.Helper()
	c.Launch(nodes...)
	for _, n := range nodes {
		if err := n.WaitReady(readyWithin); err != nil {
			c.T.Fatal(err)
		}
	}
}

// StartAll starts all nodes, and waits until all partitions are owned and the
// shares are even.
func (c *Nodes) StartAll() {
	c.T.Helper()
	c.Start(c.All...)
	c.WaitEven(time.Minute)
}

// Terminate asks nodes to drain, one after another, and wants exit 0 of each.
func (c *Nodes) Terminate(nodes ...*Node) {
	c.T.Helper()
	for _, n := range nodes {
		n.planned = true
		if err := n.Terminate(); err != nil {
			c.T.Fatalf("%s was asked to stop: %v\n%s", n.Name, err, lastLines(n.Log(), 60))
		}
	}
}

// Pause stops a node where it stands.
func (c *Nodes) Pause(n *Node) {
	c.T.Helper()
	if err := n.Pause(); err != nil {
		c.T.Fatal(err)
	}
}

// Resume lets a paused node go on.
func (c *Nodes) Resume(n *Node) {
	c.T.Helper()
	if err := n.Resume(); err != nil {
		c.T.Fatal(err)
	}
}

// note takes takeovers from a node's log.
func (c *Nodes) note(node string, line []byte) {
	c.keep(node, line)
	var entry struct {
		Time      time.Time
		Msg       string
		Partition int32
		Epoch     int64
	}
	if json.Unmarshal(line, &entry) != nil || entry.Msg != "the partition is owned" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeovers = append(c.takeovers, Takeover{Partition: entry.Partition, Epoch: entry.Epoch, Node: node, At: entry.Time})
}

// keep writes whole logs into the directory that BELFRY_CHAOS_LOGS names.
func (c *Nodes) keep(node string, line []byte) {
	dir := os.Getenv("BELFRY_CHAOS_LOGS")
	if dir == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, c.T.Name()+"."+node+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // for people; the test goes on without it
	}
	_, _ = f.Write(append(slices.Clone(line), '\n'))
	_ = f.Close()
}

// Takeovers are all so far.
func (c *Nodes) Takeovers() []Takeover {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.takeovers)
}

// Ready are the nodes that take requests now.
func (c *Nodes) Ready() []*Node {
	var out []*Node
	for _, n := range c.All {
		if n.Running() && (c.Reached == nil || c.Reached(n)) && n.Ready() {
			out = append(out, n)
		}
	}
	return out
}

// anyWithin is how long a request of the test goes from node to node.
const anyWithin = 30 * time.Second

// any has a ready node do something, and another when that one is gone or says
// that it cannot now.
func (c *Nodes) any(do func(*Process) error) error {
	err := errors.New("no node is ready")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(anyWithin); time.Now().Before(end); <-tick.C {
		for _, n := range c.All {
			if !n.Running() || n.planned || c.Reached != nil && !c.Reached(n) {
				continue
			}
			if err = do(&n.Process); err == nil || !passes(err) {
				return err
			}
		}
	}
	return err
}

// passes tells that another node, or the same one a little later, may do what
// this one could not.
func passes(err error) bool {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.Code == http.StatusServiceUnavailable || refused.Code == http.StatusTooManyRequests || refused.Code == http.StatusConflict
	}
	return true
}

// Import registers jobs at any node.
func (c *Nodes) Import(jobs []map[string]any) (good int, firstBad string, err error) {
	err = c.any(func(p *Process) error { good, firstBad, err = p.Import(jobs); return err })
	return good, firstBad, err
}

// Executions reads all records of a job from any node.
func (c *Nodes) Executions(job string) (records []Record, err error) {
	err = c.any(func(p *Process) error { records, err = p.Executions(job); return err })
	return records, err
}

// Log is the end of every node's log.
func (c *Nodes) Log() string {
	var all strings.Builder
	for _, n := range c.All {
		fmt.Fprintf(&all, "%s:\n%s\n", n.Name, lastLines(n.Log(), 20))
	}
	return all.String()
}

// Post sends a small request to any node, under one key, and wants the status.
func (c *Nodes) Post(path string, body any, want int) error {
	key := rand.Text()
	return c.any(func(p *Process) error { return p.post(path, key, body, want) })
}

// Owners is who owns which partition, as any node sees it.
func (c *Nodes) Owners() []Owner {
	c.T.Helper()
	var owners []Owner
	if err := c.any(func(p *Process) (err error) { owners, err = p.Owners(); return err }); err != nil {
		c.T.Fatal(err)
	}
	return owners
}

// OwnedBy are the partitions of a node, as any node sees it.
func (c *Nodes) OwnedBy(n *Node) []int32 {
	c.T.Helper()
	var out []int32
	for _, o := range c.Owners() {
		if o.Node == n.Name {
			out = append(out, o.Partition)
		}
	}
	return out
}

// WaitTaken waits until other nodes own everything that one had.
func (c *Nodes) WaitTaken(from *Node, within time.Duration) {
	c.T.Helper()
	c.Await("others own what "+from.Name+" had", within, func() (any, bool) {
		owners := c.Owners()
		return owners, !slices.ContainsFunc(owners, func(o Owner) bool { return o.Node == from.Name || o.Node == "" })
	})
}

// Await waits until something is so, and fails the test with what was seen last.
func (c *Nodes) Await(what string, within time.Duration, so func() (seen any, ok bool)) {
	c.T.Helper()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(within)
	for {
		seen, ok := so()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			c.T.Fatalf("after %s it is not so that %s: %v", within, what, seen)
		}
	}
}

// steady is how long what is settled stays as it is.
const steady = time.Second

// WaitEven waits until all running nodes see every partition owned, by the same
// owners for a second, and no scheduler has more than its share. When the last
// partition moved is what Takeovers tell.
func (c *Nodes) WaitEven(within time.Duration) {
	c.T.Helper()
	var last []Owner
	var since time.Time
	c.Await("all nodes see all partitions owned in even shares", within, func() (any, bool) {
		owners, seen := c.even()
		if owners == nil || !slices.Equal(owners, last) {
			last, since = owners, time.Now()
		}
		return seen, owners != nil && time.Since(since) >= steady
	})
}

// even is what all running nodes see alike, when it is as it should be; else nil
// and what was seen.
func (c *Nodes) even() (all []Owner, seen any) {
	has := map[string]int{}
	for _, n := range c.All {
		if n.Running() && !n.planned && n.schedules() {
			has[n.Name] = 0
		}
	}
	for _, n := range c.All {
		if !n.Running() || n.planned || c.Reached != nil && !c.Reached(n) {
			continue
		}
		owners, err := n.Owners()
		if err != nil {
			return nil, fmt.Sprintf("%s: %v", n.Name, err)
		}
		if all == nil {
			all = owners
		}
		if !slices.Equal(all, owners) {
			return nil, fmt.Sprintf("%s sees %v, and another %v", n.Name, owners, all)
		}
	}
	for _, o := range all {
		if _, ok := has[o.Node]; !ok {
			return nil, all
		}
		has[o.Node]++
	}
	least, most := share(len(all), len(has))
	for _, n := range has {
		if n < least || n > most {
			return nil, has
		}
	}
	return all, has
}

func (n *Node) schedules() bool { return n.Roles == "" || strings.Contains(n.Roles, "scheduler") }

// share is between which counts each of some nodes owns: at most a quarter more
// than its even part, as the documentation says, and what that leaves.
func share(partitions, nodes int) (least, most int) {
	if nodes == 0 {
		return 0, 0
	}
	most = (5*partitions + 4*nodes - 1) / (4 * nodes)
	return max(partitions-(nodes-1)*most, 0), most
}
