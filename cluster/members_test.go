package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

// Membership over real sockets of 127.0.0.x. What needs a certain time is tested
// in virtual time, in gossip_test.go.

// local starts a member on a free port of an address, until the end of the test.
func local(t *testing.T, host, node string, more ...func(*MembersConfig)) *testMember {
	t.Helper()
	cfg := MembersConfig{Self: incarnation(node), Listen: net.JoinHostPort(host, "0"), Rejoin: 200 * time.Millisecond}
	for _, f := range more {
		f(&cfg)
	}
	return start(t, cfg)
}

// leaks fails a test that leaves goroutines behind. memberlist's last probe may
// wait for its answer longer than goleak does for its end.
func leaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		err := goleak.Find(before)
		for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; {
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func listening(addr string) func(*MembersConfig) {
	return func(c *MembersConfig) { c.Listen = addr }
}

// TestJoinByList: a list of host:port, of which some are dead, joins all.
func TestJoinByList(t *testing.T) {
	leaks(t)
	a := local(t, "127.0.0.1", "a")
	b := local(t, "127.0.0.2", "b", joining(a.Gossip()))
	c := local(t, "127.0.0.3", "c", joining("127.0.0.4:1", b.Gossip()))
	for _, m := range []*testMember{a, b, c} {
		m.awaitNodes(t, "a", "b", "c")
	}
	got, ok := c.View().Find(a.cfg.Self.Owner())
	if want := a.cfg.Self; !ok || got.Address != want.Address || got.Started != want.Started || got.Roles.String() != want.Roles.String() ||
		got.Kinds[0] != "mail" || got.Version != want.Version || got.Format != want.Format {
		t.Errorf("a is %+v", got)
	}
}

// TestJoinByName: one name stands for all, this node included; hosts without a
// port use ours. Nobody has to be there at first.
func TestJoinByName(t *testing.T) {
	leaks(t)
	names := func(c *MembersConfig) {
		c.Join = []string{"belfry.test"}
		c.resolve = func(_ context.Context, host string) ([]string, error) {
			if host != "belfry.test" {
				t.Errorf("looked up %q", host)
			}
			return []string{"127.0.1.1", "127.0.1.2", "127.0.1.3"}, nil
		}
	}
	a := local(t, "127.0.1.1", "a", names)
	_, port, err := net.SplitHostPort(a.Gossip())
	if err != nil {
		t.Fatal(err)
	}
	sees(t, a, "a")
	b := local(t, "127.0.1.2", "b", names, listening("127.0.1.2:"+port))
	c := local(t, "127.0.1.3", "c", names, listening("127.0.1.3:"+port))
	for _, m := range []*testMember{a, b, c} {
		m.awaitNodes(t, "a", "b", "c")
		if got, err := m.candidates(t.Context()); len(got) > 0 || err != nil {
			t.Errorf("all are there, and it would join %v, %v", got, err)
		}
	}
}

// TestGoing: one leaves, one is killed and comes back on its address.
func TestGoing(t *testing.T) {
	leaks(t)
	a := local(t, "127.0.0.1", "a")
	b := local(t, "127.0.0.2", "b", joining(a.Gossip()))
	c := local(t, "127.0.0.3", "c", joining(a.Gossip()))
	for _, m := range []*testMember{a, b, c} {
		m.awaitNodes(t, "a", "b", "c")
	}
	if err := b.Leave(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	b.Close()
	a.awaitNodes(t, "a", "c")
	c.awaitNodes(t, "a", "c")
	c.kill()
	a.awaitNodes(t, "a")
	c = local(t, "", "c", listening(c.Gossip()), joining(a.Gossip()))
	a.awaitMember(t, c)
	if testutil.ToFloat64(a.count.members) != 2 {
		t.Error("the metric does not count two members")
	}
}

// TestEncrypted: with a key and a label two nodes find each other, and the keys
// can be replaced.
func TestEncrypted(t *testing.T) {
	leaks(t)
	key, next := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	with := func(c *MembersConfig) { c.Label, c.Keys = "prod", [][]byte{key} }
	a := local(t, "127.0.0.1", "a", with)
	b := local(t, "127.0.0.2", "b", with, joining(a.Gossip()))
	a.awaitNodes(t, "a", "b")
	for _, keys := range [][][]byte{{key, next}, {next, key}, {next}} {
		for _, m := range []*testMember{a, b} {
			if err := m.SetKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := local(t, "127.0.0.3", "c", joining(b.Gossip()), func(c *MembersConfig) { c.Label, c.Keys = "prod", [][]byte{next} })
	c.awaitNodes(t, "a", "b", "c")
	if err := local(t, "127.0.0.4", "d").SetKeys([][]byte{key}); err == nil {
		t.Error("a node without encryption took a key")
	}
}

// TestAdvertise: others are told another address, and the node knows all that
// are its own.
func TestAdvertise(t *testing.T) {
	leaks(t)
	a := local(t, "0.0.0.0", "a", func(c *MembersConfig) { c.Advertise, c.Insecure = "127.0.0.1", true })
	if host, port, err := net.SplitHostPort(a.Gossip()); err != nil || host != "127.0.0.1" || port != a.port || !a.own[a.Gossip()] {
		t.Errorf("gossip address %s, own addresses %v", a.Gossip(), a.own)
	}
	b := local(t, "127.0.0.2", "b", joining(a.Gossip()))
	b.awaitNodes(t, "a", "b")
	a.awaitNodes(t, "a", "b")
}

func TestRefused(t *testing.T) {
	leaks(t)
	busy := local(t, "127.0.0.1", "busy")
	for want, change := range map[string]func(*MembersConfig){
		"at most 512 fit":                          func(c *MembersConfig) { c.Self.Kinds = strings.Fields(strings.Repeat("kind-of-actor ", 40)) },
		`"a/b" is not a node's name`:               func(c *MembersConfig) { c.Self.Node = "a/b" },
		`"" is not a node's name`:                  func(c *MembersConfig) { c.Self.Node = "" },
		"no incarnation":                           func(c *MembersConfig) { c.Self.Incarnation = uuid.Nil },
		"of its actors is not host:port":           func(c *MembersConfig) { c.Self.Address = "127.0.0.1" },
		"gossip key 2 has 5 bytes":                 func(c *MembersConfig) { c.Keys = [][]byte{make([]byte, 16), []byte("short")} },
		"the cluster's name has 256 bytes":         func(c *MembersConfig) { c.Label = strings.Repeat("x", 256) },
		"address already in use":                   func(c *MembersConfig) { c.Listen = busy.Gossip() },
		`listen address: "127.0.0.1": "" is not`:   func(c *MembersConfig) { c.Listen = "127.0.0.1" },
		"gossip there needs keys":                  func(c *MembersConfig) { c.Listen = "0.0.0.0:0" },
		"say which address others":                 func(c *MembersConfig) { c.Listen, c.Insecure = "[::]:0", true },
		"advertised address: no such name":         func(c *MembersConfig) { c.Advertise = "nowhere.test" },
		`join: "host:port:more" is not host:port`:  func(c *MembersConfig) { c.Join = []string{"host:port:more"} },
		`join: "host:http": "http" is not a port`:  func(c *MembersConfig) { c.Join = []string{"host:http"} },
		`join: ":7946" names no host and port`:     func(c *MembersConfig) { c.Join = []string{":7946"} },
		"duplicate metrics collector registration": func(c *MembersConfig) { c.Registry = taken(t) },
	} {
		cfg := MembersConfig{Self: incarnation("a"), Listen: "127.0.0.1:0", resolve: noNames}
		change(&cfg)
		if _, err := tryStart(t, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// taken is a registry in which the second of our metrics is taken.
func taken(t *testing.T) prometheus.Registerer {
	c, err := newMembersMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(c.refused)
	return r
}

// TestNobodyAnswers: a start that finds nobody ends in time, also when the
// caller gives up, and leaves nothing behind in the registry.
func TestNobodyAnswers(t *testing.T) {
	leaks(t)
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := MembersConfig{Self: incarnation("a"), Listen: "127.0.0.1:0", Join: []string{"belfry.test"}, Registry: registry, Log: slog.New(slog.DiscardHandler)}
	cfg.resolve = func(ctx context.Context, _ string) ([]string, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := JoinMembers(ctx, cfg); err == nil {
		t.Fatal("a start that was given up went on")
	}
	cfg.resolve = noNames
	m := start(t, cfg)
	sees(t, m, "a")
	if n, err := testutil.GatherAndCount(registry, "belfry_cluster_members"); n != 1 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}
	m.Close()
	m.Close()
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d metrics after the end, %v", n, err)
	}
}

func TestParseKeys(t *testing.T) {
	k16, k32 := "AAAAAAAAAAAAAAAAAAAAAA==", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	keys, err := ParseKeys("# the newest first\n" + k32 + "\r\n\n  " + k16 + "\n")
	if err != nil || len(keys) != 2 || len(keys[0]) != 32 || len(keys[1]) != 16 {
		t.Errorf("keys %x, %v", keys, err)
	}
	for text, want := range map[string]string{
		"":                        "there is no key",
		"# nothing":               "there is no key",
		k16 + "\nsecret!":         "line 2 is not base64",
		"AAAA":                    "line 1 has a key of 3 bytes",
		k16 + "\n\n" + k32 + "AA": "line 3 is not base64",
	} {
		if _, err := ParseKeys(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestGossipLog: levels of memberlist's lines, and a bound on them.
func TestGossipLog(t *testing.T) {
	for line, want := range map[string]slog.Level{
		"[DEBUG] memberlist: x\n": slog.LevelDebug, "[INFO] memberlist: x\n": slog.LevelInfo, "[WARN] memberlist: x\n": slog.LevelWarn,
		"[ERR] memberlist: x\n": slog.LevelWarn, "[ERROR] x\n": slog.LevelWarn, "x\n": slog.LevelWarn,
	} {
		if level, text := gossipLine(line); level != want || text != "x" {
			t.Errorf("%q: %v %q", line, level, text)
		}
	}
	bubble(t, func(t *testing.T) {
		var out bytes.Buffer
		g := newGossipLog(slog.New(slog.NewTextHandler(&out, nil)))
		write := func(line string) {
			if _, err := g.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			write("[ERR] memberlist: flood")
			write("[DEBUG] memberlist: detail")
		}
		if n := strings.Count(out.String(), "\n"); n != 50 || strings.Contains(out.String(), "detail") {
			t.Errorf("%d lines", n)
		}
		pass(time.Second)
		write("[WARN] memberlist: after")
		if !strings.Contains(out.String(), "text=after dropped=150") {
			t.Errorf("the dropped lines are not counted: %s", out.String()[out.Len()-100:])
		}
		g.close()
		size := out.Len()
		write("[WARN] memberlist: too late")
		if out.Len() != size {
			t.Error("a line after the end")
		}
	})
}

func TestSplitAddress(t *testing.T) {
	for text, want := range map[string]string{
		"node-1": "node-1 7946", "node-1:1": "node-1 1", "10.0.0.1": "10.0.0.1 7946", "10.0.0.1:1": "10.0.0.1 1",
		"::1": "::1 7946", "[::1]": "::1 7946", "[::1]:1": "::1 1", ":1": " 1",
	} {
		host, port, err := splitAddress(text, "7946")
		if got := host + " " + (&net.TCPAddr{Port: int(port)}).String()[1:]; err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"a:65536", "a:", "a:-1", "a:b:c", "[::1]:x"} {
		if host, port, err := splitAddress(text, "7946"); err == nil {
			t.Errorf("%q is %q, %d", text, host, port)
		}
	}
}
