package chaos

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestNodesSpeakTLS: nodes with certificates of one authority and one gossip key
// share the work, over a killed node. One with a certificate of another
// authority gets no message through, and one with another gossip key is not
// even seen; neither owns anything that it does not have to give back.
func TestNodesSpeakTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	key := gossipKey(t)
	c := NewNodes(t, cassandra.Start(t, 1), 2)
	for _, n := range c.All {
		n.Extra = papers(t, ours, ours, key)
	}
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 20, time.Second, l.ledger.URL)
	l.seconds(2)
	over := l.hit(Killed, c.All[0])
	c.All[0].Kill()
	l.seconds(6)
	c.Start(c.All[0])
	over()
	l.recovered(c)
	l.seconds(1)
	l.finishOn(c)

	unheard := c.Add("", papers(t, ours, theirs, key)...)
	c.Launch(unheard)
	c.Await("the node of another authority is seen and not heard", time.Minute, func() (any, bool) {
		states := c.states()
		return states, states[unheard.Name] == "unheard"
	})
	unseen := c.Add("", papers(t, ours, ours, gossipKey(t))...)
	c.Launch(unseen)
	c.Await("the node with another key has begun, and is no member", time.Minute, func() (any, bool) {
		states := c.states()
		seen, beats := states[unseen.Name]
		return states, beats && seen == "unheard" // as its beats in the database say
	})
	for _, o := range c.Owners() {
		if o.Node != c.All[0].Name && o.Node != c.All[1].Name {
			t.Errorf("partition %d is owned by %s", o.Partition, o.Node)
		}
	}
}

// states are the members and their states, as the first node has them.
func (c *Nodes) states() map[string]string {
	var members []struct{ Node, State string }
	out := map[string]string{}
	if _, err := c.All[0].get("/v1/cluster/members", &members); err != nil {
		return out
	}
	for _, m := range members {
		out[m.Node] = m.State
	}
	return out
}

func newAuthority(t *testing.T) *cassandra.Authority {
	t.Helper()
	a, err := cassandra.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func gossipKey(t *testing.T) []byte {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return append(base64.StdEncoding.AppendEncode(nil, key), '\n')
}

// papers are the settings of a node that trusts one authority and has a
// certificate of another, or of the same one.
func papers(t *testing.T, trusts, signed *cassandra.Authority, gossip []byte) []string {
	t.Helper()
	cert, key, err := signed.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "node"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	dir := t.TempDir()
	for _, f := range []struct {
		flag string
		text []byte
	}{{"--cluster-ca", trusts.PEM}, {"--cluster-cert", cert}, {"--cluster-key", key}, {"--gossip-key-file", gossip}} {
		path := filepath.Join(dir, f.flag[2:])
		if err := os.WriteFile(path, bytes.Clone(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, f.flag, path)
	}
	return slices.Clip(out)
}
