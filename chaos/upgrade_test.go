package chaos

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestUpgrade: a cluster rolls to a build that knows one format of stored
// messages more, back, and forth again, under load, without a missed occurrence
// and without a repeat. The format is raised when every node knows it, not
// before; then a node of the old build does not start.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	older := c.Bin
	newer, err := Built("-tags", "belfry_next_format")
	if err != nil {
		t.Fatal(err)
	}
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 60, time.Second, l.ledger.URL)
	l.seconds(2)
	for _, n := range c.All {
		if n == c.All[2] {
			if status, text := raise(t, c, 2); status != http.StatusConflict || !strings.Contains(text, n.Name) {
				t.Errorf("raised while %s does not know the format: %d %s", n.Name, status, text)
			}
		}
		l.restart(c, n, newer)
	}
	for _, build := range []string{older, newer} { // and back, and forth again
		for _, n := range c.All[:min(envInt(t, "BELFRY_CHAOS_RESTARTS", 3)/3, 3)] {
			l.restart(c, n, build)
		}
	}
	if status, text := raise(t, c, 2); status != http.StatusOK {
		t.Errorf("raise the format when all know it: %d %s", status, text)
	}
	l.restart(c, c.All[0], newer) // its partitions are written in the new format by now
	l.seconds(2)
	l.finishOn(c)

	last := c.All[1]
	c.Terminate(last)
	last.Bin = older
	c.Launch(last)
	if err := last.Wait(time.Minute); err == nil || !strings.Contains(last.Log(), "format") {
		t.Errorf("a node that does not know the format ended with %v\n%s", err, lastLines(last.Log(), 10))
	}
}

// restart stops a node politely and starts it with a build.
func (l *load) restart(c *Nodes, n *Node, build string) {
	l.t.Helper()
	over := l.hit(Restarted, n)
	c.Terminate(n)
	n.Bin = build
	c.Start(n)
	over()
	l.recovered(c)
}

// raise asks a node to raise the format.
func raise(t *testing.T, c *Nodes, to int) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, c.Ready()[0].URL()+"/v1/cluster/format", bytes.NewReader(fmt.Appendf(nil, `{"format": %d}`, to)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
