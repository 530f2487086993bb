package chaos

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// TestAnswersLost: between a node and its database stands a proxy that lets
// conditional writes through and swallows, delays or replaces one answer in ten.
// Nothing is lost, early or doubled; all that was in doubt is settled.
//
// BELFRY_CHAOS_DOUBTS is how many answers are lost at least (20).
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	db := cassandra.Start(t, 1)
	at, err := netip.ParseAddrPort(db.Hosts()[0])
	if err != nil {
		t.Fatal(err)
	}
	proxy := cqlproxy.Start(t, at.String())
	network, err := NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	host, err := network.Join("node")
	if err != nil {
		t.Fatal(err)
	}
	target, err := network.Join("target")
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Pretend(at, proxy.Addr()); err != nil {
		t.Fatal(err)
	}
	node := onDatabase(t, db, "answers_lost")
	node.Spawn = host.Do
	node.Args = append(node.Args, "--allow-targets", "10.200.0.0/16")
	if err := host.Expose(node.Listen); err != nil {
		t.Fatal(err)
	}
	_, l := alone(t, node)
	ledger, err := target.Serve(strings.TrimPrefix(l.ledger.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	l.add("tick", 40, time.Second, "http://"+ledger)
	l.seconds(1)
	l.history.OnTime, l.history.Recovery = slow(t, 2*time.Second), slow(t, RecoveryBound)
	want := envInt(t, "BELFRY_CHAOS_DOUBTS", 20)
	lost := make(chan struct{}, 100_000)
	count := func(a cqlproxy.Action) cqlproxy.Action { return a.Then(func() { lost <- struct{}{} }) }
	f := Fault{Kind: Shaken, At: time.Now()}
	proxy.Decide(cqlproxy.Drawn(rand.New(rand.NewPCG(l.random.Uint64(), 1)), cqlproxy.Request.Conditional,
		cqlproxy.Weighted{Weight: 36, Action: cqlproxy.Pass()},
		cqlproxy.Weighted{Weight: 2, Action: count(cqlproxy.Swallow())},
		cqlproxy.Weighted{Weight: 1, Action: count(cqlproxy.Delay(900 * time.Millisecond))},
		cqlproxy.Weighted{Weight: 1, Action: count(cqlproxy.Replace(cqlproxy.WriteTimeout(frame.LocalSerial, 0, 1, cqlproxy.WriteCAS)))},
	))
	for len(lost) < want {
		l.flow(10)
	}
	proxy.Decide(cqlproxy.PassAll)
	f.End = time.Now()
	l.history.Faults = append(l.history.Faults, f)
	l.seconds(2)
	l.finish()
	t.Logf("%d answers were lost in %s", len(lost), f.End.Sub(f.At).Round(time.Second))
}
