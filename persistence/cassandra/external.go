package cassandra

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Variables that name a running server to use instead of one of ours.
const (
	HostsVariable = "BELFRY_TEST_CQL_HOSTS"
	DCVariable    = "BELFRY_TEST_CQL_DC"
)

// defaultDC is what a server of ours calls its data centre.
const defaultDC = "datacenter1"

// outside is a server that somebody else runs.
type outside struct {
	hosts []string
	dc    string
}

// external is the server that the environment names; nil when it names none.
func external() *outside {
	o := &outside{dc: os.Getenv(DCVariable)}
	if o.dc == "" {
		o.dc = defaultDC
	}
	for _, h := range strings.Split(os.Getenv(HostsVariable), ",") {
		if h = strings.TrimSpace(h); h == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), strconv.Itoa(clientPort))
		}
		o.hosts = append(o.hosts, h)
	}
	if len(o.hosts) == 0 {
		return nil
	}
	return o
}

// open looks whether the server is there and large enough.
func (o *outside) open(ctx context.Context, cfg Config) (*Server, error) {
	if len(o.hosts) < cfg.Nodes {
		return nil, fmt.Errorf("%d database nodes are needed, and %s names %d", cfg.Nodes, HostsVariable, len(o.hosts))
	}
	for _, h := range o.hosts {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		c, err := frame.Dial(ctx, h)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("the database of %s: %w", HostsVariable, err)
		}
		c.Close()
	}
	return &Server{hosts: o.hosts, dc: o.dc}, nil
}
