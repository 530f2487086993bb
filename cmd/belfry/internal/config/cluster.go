package config

import (
	"fmt"
	"net"
	"time"

	"github.com/belfry-scheduler/belfry/cluster"
)

// Cluster is how a node finds the others.
type Cluster struct {
	Listen        string // gossip, TCP and UDP; "": alone
	ActorListen   string // messages between nodes
	Advertise     string // host that the other nodes reach this one by
	Join          []string
	Name          string
	Roles         cluster.Roles
	TTL           time.Duration
	GossipKeyFile string
	CA            string
	Cert          string
	Key           string
	Insecure      bool
}

// Where the nodes of a cluster listen when nothing is said.
const (
	defaultClusterListen = "127.0.0.1:7946"
	defaultActorPort     = "7947"
)

func clusterSettings() []Setting {
	text := func(key, def, help string, field func(*Cluster) *string) Setting {
		return Setting{Key: key, Default: def, Help: help, apply: func(s *Server, v string) error {
			*field(&s.Cluster) = v
			return nil
		}}
	}
	return []Setting{
		text("cluster-listen", "", "host:port on which nodes find each other, TCP and UDP (default with --store cql: "+defaultClusterListen+"; with the embedded store: off)", func(c *Cluster) *string { return &c.Listen }),
		text("actor-listen", "", "host:port of messages between nodes (default: port "+defaultActorPort+" beside --cluster-listen)", func(c *Cluster) *string { return &c.ActorListen }),
		text("advertise", "", "host or address by which other nodes reach this one (default: the one that it listens on)", func(c *Cluster) *string { return &c.Advertise }),
		{Key: "join", Help: "some nodes of the cluster, host or host:port, separated by commas, or a name that resolves to all of them", apply: func(s *Server, v string) error {
			s.Cluster.Join = list(v)
			return nil
		}},
		{Key: "cluster-name", Default: "belfry", Help: "name of the cluster: nodes of another name are not let in", apply: func(s *Server, v string) error {
			s.Cluster.Name = v
			return notEmpty(v)
		}},
		{Key: "roles", Default: "gateway,scheduler,worker", Help: "parts that this node plays: gateway serves the API, scheduler owns partitions, worker makes deliveries", apply: func(s *Server, v string) (err error) {
			s.Cluster.Roles, err = cluster.ParseRoles(v)
			return err
		}},
		{Key: "ttl", Default: "3s", Help: "how long a node may be silent before others take its partitions, from 1s to 60s; the same on every node", apply: func(s *Server, v string) (err error) {
			if s.Cluster.TTL, err = duration(v, time.Second); err == nil && s.Cluster.TTL > time.Minute {
				return fmt.Errorf("%s is more than the largest allowed, 60s", v)
			}
			return err
		}},
		text("gossip-key-file", "", "file of keys that encrypt gossip, base64, one a line: the first is used, all are understood", func(c *Cluster) *string { return &c.GossipKeyFile }),
		text("cluster-ca", "", "PEM file of the authority that signs the certificates of all nodes; turns TLS between nodes on", func(c *Cluster) *string { return &c.CA }),
		text("cluster-cert", "", "PEM file of this node's certificate", func(c *Cluster) *string { return &c.Cert }),
		text("cluster-key", "", "PEM file of its key", func(c *Cluster) *string { return &c.Key }),
		{Key: "cluster-insecure", Default: "false", Bool: true, Help: "let nodes talk without TLS off loopback: whoever reaches the ports controls all jobs", apply: func(s *Server, v string) (err error) {
			s.Cluster.Insecure, err = boolean(v)
			return err
		}},
	}
}

// WithDefaults fills in where to listen, for a kind of store.
func (c Cluster) WithDefaults(store string) Cluster {
	if c.Listen == "" && store == "cql" {
		c.Listen = defaultClusterListen
	}
	if c.ActorListen == "" && c.Listen != "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			host = c.Listen // refused later, with the reason
		}
		c.ActorListen = net.JoinHostPort(host, defaultActorPort)
	}
	return c
}
