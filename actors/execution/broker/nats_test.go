package broker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfry-scheduler/belfry/messages/job"
)

func always() bool { return true }

// startNATS runs a server with JetStream on loopback.
func startNATS(t *testing.T, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	for _, f := range change {
		f(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not answer")
	}
	return s
}

// stream makes a stream of the subject orders.> and reads it.
func stream(t *testing.T, s *server.Server, options ...nats.Option) jetstream.Stream {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	out, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, MaxMsgs: 2, Discard: jetstream.DiscardNew})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func setOf(t *testing.T, c Config) *Set {
	t.Helper()
	s := NewSet(map[string]Config{"main": c})
	t.Cleanup(s.Close)
	return s
}

func TestNATSStoresAMessageOnce(t *testing.T) {
	s := startNATS(t)
	orders := stream(t, s)
	set := setOf(t, Config{URL: s.ClientURL()})
	m := &Message{To: "orders.due", ID: "job~1~x", Headers: [][2]string{{"Belfry-Attempt", "1"}, {"ce-id", "job~1~x"}}, Payload: []byte(`{"a":1}`)}
	for _, want := range []string{"stream ORDERS, sequence 1", "stream ORDERS, sequence 1, stored before"} {
		if got, err := set.Publish(t.Context(), NATS, "main", m, always); err != nil || got != want {
			t.Fatalf("%q, %v: want %q", got, err, want)
		}
	}
	stored, err := orders.GetMsg(t.Context(), 1)
	if err != nil || string(stored.Data) != `{"a":1}` || stored.Subject != "orders.due" ||
		stored.Header.Get("Nats-Msg-Id") != "job~1~x" || stored.Header.Get("Belfry-Attempt") != "1" || stored.Header.Get("ce-id") != "job~1~x" {
		t.Errorf("stored %+v, %v", stored, err)
	}
}

func TestNATSRefusals(t *testing.T) {
	s := startNATS(t, func(o *server.Options) { o.MaxPayload = 1 << 10 })
	stream(t, s)
	set := setOf(t, Config{URL: s.ClientURL()})
	publish := func(to, id string, size int) error {
		_, err := set.Publish(t.Context(), NATS, "main", &Message{To: to, ID: id, Payload: make([]byte, size)}, always)
		return err
	}
	var refused *Refused
	if err := publish("elsewhere", "1", 1); !errors.As(err, &refused) || refused.Final || !strings.Contains(err.Error(), `no stream takes the subject "elsewhere"`) {
		t.Errorf("without a stream: %v", err)
	}
	if err := publish("orders.a", "1", 2<<10); !errors.As(err, &refused) || !refused.Final {
		t.Errorf("too large: %v", err)
	}
	for _, id := range []string{"1", "2"} {
		if err := publish("orders.a", id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish("orders.a", "3", 1); !errors.As(err, &refused) || refused.Final || !strings.Contains(err.Error(), "maximum messages exceeded") {
		t.Errorf("a full stream: %v", err)
	}
	if _, err := set.Publish(t.Context(), NATS, "main", &Message{To: "orders.a"}, func() bool { return false }); !errors.Is(err, ErrMayNot) {
		t.Errorf("a node that may not send: %v", err)
	}
}

// A broker that went away takes nothing in silence, and is found again when it is
// back.
func TestNATSAway(t *testing.T) {
	dir := t.TempDir()
	first := startNATS(t, func(o *server.Options) { o.StoreDir = dir })
	stream(t, first)
	port := first.Addr().(*net.TCPAddr).Port
	set := setOf(t, Config{URL: first.ClientURL()})
	publish := func(id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := set.Publish(ctx, NATS, "main", &Message{To: "orders.a", ID: id}, always)
		return err
	}
	if err := publish("1"); err != nil {
		t.Fatal(err)
	}
	first.Shutdown()
	first.WaitForShutdown()
	if err := publish("2"); err == nil {
		t.Fatal("a broker that is away took a message")
	}
	startNATS(t, func(o *server.Options) { o.StoreDir, o.Port = dir, port })
	tries := time.NewTicker(20 * time.Millisecond)
	defer tries.Stop()
	deadline := time.Now().Add(time.Minute)
	err := publish("2")
	for ; err != nil && time.Now().Before(deadline); err = publish("2") {
		<-tries.C
	}
	if err != nil {
		t.Errorf("it is back: %v", err)
	}
}

func TestNATSLogin(t *testing.T) {
	s := startNATS(t, func(o *server.Options) { o.Username, o.Password = "belfry", "hunter2" })
	stream(t, s, nats.UserInfo("belfry", "hunter2"))
	right, wrong := filepath.Join(t.TempDir(), "right"), filepath.Join(t.TempDir(), "wrong")
	for path, text := range map[string]string{right: "hunter2\n", wrong: "hunter3\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &Message{To: "orders.a", ID: "1"}
	if _, err := setOf(t, Config{URL: s.ClientURL(), User: "belfry", PasswordFile: right}).Publish(t.Context(), NATS, "main", m, always); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{URL: s.ClientURL(), User: "belfry", PasswordFile: wrong}, {URL: s.ClientURL()}} {
		if _, err := setOf(t, c).Publish(t.Context(), NATS, "main", m, always); !errors.Is(err, job.ErrNotSent) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestABrokerThatIsNotThere(t *testing.T) {
	set := setOf(t, Config{URL: "nats://127.0.0.1:1"})
	for _, try := range []func(context.Context) (string, error){
		func(ctx context.Context) (string, error) {
			return set.Publish(ctx, NATS, "main", &Message{To: "a"}, always)
		},
		func(ctx context.Context) (string, error) {
			return set.Publish(ctx, NATS, "other", &Message{To: "a"}, always)
		},
		func(ctx context.Context) (string, error) {
			return set.Publish(ctx, Kafka, "main", &Message{To: "a"}, always)
		},
		func(ctx context.Context) (string, error) {
			return (*Set)(nil).Publish(ctx, NATS, "main", &Message{To: "a"}, always)
		},
	} {
		if _, err := try(t.Context()); !errors.Is(err, job.ErrNotSent) {
			t.Errorf("%v", err)
		}
	}
}
