package chaos

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
)

// proxiedNodes are a cluster, each node of it in a network namespace of its own,
// where a proxy of its own seems to be the database.
type proxiedNodes struct {
	*Nodes
	load  *load
	proxy map[*Node]*cqlproxy.Proxy
}

// newProxiedNodes starts so many nodes of a build. at is where their targets are.
func newProxiedNodes(t *testing.T, bin string, count int) (c *proxiedNodes, at string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	network, err := NewNetwork()
	must(err)
	t.Cleanup(network.Close)
	db := cassandra.Start(t, 1)
	database, err := netip.ParseAddrPort(db.Hosts()[0])
	must(err)
	c = &proxiedNodes{Nodes: NewNodes(t, db, count), proxy: map[*Node]*cqlproxy.Proxy{}}
	for _, n := range c.All {
		h, err := network.Join(n.Name)
		must(err)
		n.Bin = bin
		must(h.Expose(n.Listen))
		n.Host, n.Spawn, n.Extra = h.IP.String(), h.Do, []string{"--cluster-insecure", "--allow-targets", "10.200.0.0/16"}
		c.proxy[n] = cqlproxy.Start(t, database.String())
		must(h.Pretend(database, c.proxy[n].Addr()))
	}
	c.load = onNodes(t, c.Nodes)
	target, err := network.Join("target")
	must(err)
	at, err = target.Serve(strings.TrimPrefix(c.load.ledger.URL, "http://"))
	must(err)
	c.StartAll()
	return c, "http://" + at
}
