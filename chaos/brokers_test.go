package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBrokersKilled: jobs publish to a NATS stream and to a Kafka topic, and each
// broker is killed in the middle, again and again. Every occurrence ends in its
// record. What is recorded as published is in the stream exactly once, since a
// repeat carries the same message id; and in the topic at least once, and twice
// only where the history shows an attempt without an answer.
//
// BELFRY_CHAOS_KILLS sets how often (2).
func TestBrokersKilled(t *testing.T) {
	t.Parallel()
	brokers := []*brokerProcess{newBroker(t, "nats"), newBroker(t, "kafka")}
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	var text strings.Builder
	for _, b := range brokers {
		b.start()
		fmt.Fprintf(&text, "%s: {url: '%s'}\n", b.kind, b.url())
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	makeStream(t, brokers[0].url())
	node := &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16", "--brokers-file", file}}
	start(t, node)
	jobs := publishers(t, node)
	for range envInt(t, "BELFRY_CHAOS_KILLS", 2) {
		for _, b := range brokers {
			id := b.kind + "-0"
			count := len(published(t, node, id))
			b.kill()
			eventually(t, id+" waits for its broker", func() bool { return waits(t, node, id) })
			b.start()
			eventually(t, id+" is published again", func() bool { return len(published(t, node, id)) > count+2 })
		}
	}
	for _, id := range jobs {
		if err := node.Post("/v1/jobs/"+id+"/pause", map[string]any{}, 200); err != nil {
			t.Fatal(err)
		}
	}
	stored := map[string]map[string]int{"nats": inStream(t, brokers[0].url()), "kafka": inTopic(t, brokers[1].url())}
	for _, id := range jobs {
		kind, _, _ := strings.Cut(id, "-")
		eventually(t, id+" waits no more", func() bool { return !waits(t, node, id) })
		executions := published(t, node, id)
		if len(executions) == 0 {
			t.Errorf("%s has published nothing", id)
		}
		for _, e := range executions {
			n := stored[kind][e.ExecutionID]
			if n < 1 || kind == "nats" && n > 1 || n > 1+e.Unknown {
				t.Errorf("%s is stored %d times, after %d attempts of which %d are unknown", e.ExecutionID, n, e.AttemptCount, e.Unknown)
			}
		}
	}
}

// publishers registers ten jobs a broker, due every second, and returns their ids.
func publishers(t *testing.T, node *Process) (ids []string) {
	t.Helper()
	var jobs []map[string]any
	for i := range 10 {
		for kind, target := range map[string]map[string]any{
			"nats": {"broker": "nats", "subject": "orders.due"}, "kafka": {"broker": "kafka", "topic": "orders"},
		} {
			id := fmt.Sprintf("%s-%d", kind, i)
			ids = append(ids, id)
			jobs = append(jobs, map[string]any{
				"job_id": id, "schedule_expr": "@every 1s", "target": map[string]any{kind: target}, "timeout": "2s",
				"retry": map[string]any{"max_attempts": 50, "initial_backoff": "200ms", "max_backoff": "1s"},
			})
		}
	}
	if good, bad, err := node.Import(jobs); err != nil || good != len(jobs) {
		t.Fatalf("import: %d, %q, %v", good, bad, err)
	}
	return ids
}

// published are a job's executions that are recorded as published; one that has
// failed for good fails the test.
func published(t *testing.T, node *Process, id string) (out []Record) {
	t.Helper()
	records, err := node.Executions(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		switch r.Status {
		case "succeeded":
			out = append(out, r)
		case "failed", "missed":
			t.Fatalf("%s is lost: %+v", r.ExecutionID, r)
		}
	}
	return out
}

// waits tells whether an execution of a job is between attempts or in one.
func waits(t *testing.T, node *Process, id string) bool {
	t.Helper()
	records, err := node.Executions(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Status == "retrying" || r.Status == "running" {
			return true
		}
	}
	return false
}

// brokerProcess is a broker in a process of its own: this test, started again.
type brokerProcess struct {
	t    *testing.T
	kind string
	addr string
	dir  string
	cmd  *exec.Cmd
}

const (
	brokerKind = "BELFRY_CHAOS_BROKER" // makes a process of this test a broker
	brokerAddr = "BELFRY_CHAOS_BROKER_ADDR"
	brokerDir  = "BELFRY_CHAOS_BROKER_DIR"
)

func newBroker(t *testing.T, kind string) *brokerProcess {
	b := &brokerProcess{t: t, kind: kind, addr: net.JoinHostPort(newHost(t), apiPort), dir: t.TempDir()}
	t.Cleanup(b.kill)
	return b
}

func (b *brokerProcess) url() string { return b.kind + "://" + b.addr }

// start returns when the broker listens.
func (b *brokerProcess) start() {
	b.t.Helper()
	b.cmd = exec.Command(os.Args[0], "-test.run=^$")
	b.cmd.Env = append(os.Environ(), brokerKind+"="+b.kind, brokerAddr+"="+b.addr, brokerDir+"="+b.dir)
	b.cmd.SysProcAttr = childAttributes()
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	eventually(b.t, b.kind+" listens", func() bool {
		conn, err := net.Dial("tcp", b.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func (b *brokerProcess) kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

// serveBroker is what a process does that TestMain finds to be a broker.
func serveBroker(kind string) error {
	addr, dir := os.Getenv(brokerAddr), os.Getenv(brokerDir)
	listen := func(string, string) (net.Listener, error) { return net.Listen("tcp", addr) }
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if kind == "kafka" {
		_, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listen), kfake.SeedTopics(1, "orders"), kfake.DataDir(dir), kfake.SyncWrites())
	} else {
		var s *natsserver.Server
		if s, err = natsserver.NewServer(&natsserver.Options{Host: host, Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}); err == nil {
			go s.Start()
		}
	}
	if err != nil {
		return err
	}
	select {} // until it is killed
}

func makeStream(t *testing.T, url string) {
	t.Helper()
	conn, js := jetStream(t, url)
	defer conn.Close()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
}

func jetStream(t *testing.T, url string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// inStream counts the messages of the stream by execution.
func inStream(t *testing.T, url string) map[string]int {
	t.Helper()
	conn, js := jetStream(t, url)
	defer conn.Close()
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
		m, err := stream.GetMsg(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		counts[m.Header.Get("Belfry-Execution-Id")]++
	}
	return counts
}

// inTopic counts the records of the topic by execution.
func inTopic(t *testing.T, url string) map[string]int {
	t.Helper()
	seed := strings.TrimPrefix(url, "kafka://")
	reader, err := kgo.NewClient(kgo.SeedBrokers(seed), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	counts := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for read := int64(0); ; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		end := int64(0) // of the one partition
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { end = p.HighWatermark })
		for _, r := range fetches.Records() {
			read++
			for _, h := range r.Headers {
				if h.Key == "Belfry-Execution-Id" {
					counts[string(h.Value)]++
				}
			}
		}
		if read >= end {
			return counts
		}
	}
}
