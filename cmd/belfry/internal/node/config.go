package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/belfry-scheduler/belfry/actors/execution"
	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/gateway"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence/cql"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Config is what a node is started with.
type Config struct {
	// CQL is the database that jobs are kept in; nil: the embedded store. Its
	// Retention and Logger are this configuration's.
	CQL *cql.Config
	// DataDir is where the embedded store lies. Required for that.
	DataDir string
	// Listen is the address of the API, host:port; port 0 takes a free one.
	Listen string
	// Cluster is how it finds other nodes; nil: it is alone. Nodes that share a
	// database need one.
	Cluster *Cluster
	// Roles are the parts that the node plays.
	Roles cluster.Roles
	// AllowTargets are networks that jobs may call although they are not public.
	AllowTargets []netip.Prefix
	// AllowPlainHTTP lets jobs call public addresses without TLS.
	AllowPlainHTTP bool
	// InsecureNoAuth lets the API listen off loopback.
	InsecureNoAuth bool
	// SecretsDir is below what jobs may refer to files as secrets; "": none may.
	SecretsDir string
	// BrokersFile names the brokers that jobs may publish to; "": none. See
	// broker.Config.
	BrokersFile string
	// Partitions of the cluster, fixed when the store is created.
	Partitions int
	// Slots is how many calls may run at once.
	Slots int
	// Limits of calls to one host; the same on every node.
	Limits execution.LimitsConfig
	// Retention of history, dead letters, and finished and deleted jobs.
	Retention time.Duration
	// DrainTimeout bounds the wait for running calls when the node stops.
	DrainTimeout time.Duration
	// NodeName is written into the history. Required.
	NodeName string
	Version  string
	Logger   *slog.Logger
	// OnEvent, if set, is told what happens, in the goroutine of an owner: it
	// must be quick.
	OnEvent func(*belfryv1.Event)
}

// DefaultConfig has the documented defaults; DataDir is the caller's.
func DefaultConfig() Config {
	return Config{
		Listen:       "127.0.0.1:8380",
		Partitions:   job.DefaultPartitions,
		Slots:        512,
		Limits:       execution.DefaultConfig().Limits,
		Retention:    30 * 24 * time.Hour,
		DrainTimeout: 90 * time.Second,
		NodeName:     "belfry",
		Roles:        cluster.Roles{cluster.Gateway, cluster.Scheduler, cluster.Worker},
		Version:      "dev",
	}
}

// Validate names the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.CQL == nil && c.DataDir == "":
		return errors.New("data-dir is empty: name the directory that the node keeps its jobs in")
	case c.NodeName == "":
		return errors.New("node-name is empty")
	case !job.ValidPartitions(c.Partitions):
		return fmt.Errorf("partitions is %d: a power of two from %d to %d", c.Partitions, job.MinPartitions, job.MaxPartitions)
	case c.Slots < 1:
		return fmt.Errorf("slots is %d: at least 1", c.Slots)
	case c.Retention < time.Hour:
		return fmt.Errorf("retention is %s: at least 1h", c.Retention)
	case c.DrainTimeout < 0:
		return fmt.Errorf("drain-timeout is %s: 0 or more", c.DrainTimeout)
	}
	if err := c.validateShared(); err != nil {
		return err
	}
	return gateway.CheckListen(c.Listen, c.InsecureNoAuth)
}

// validateShared checks what a node shares with others.
func (c Config) validateShared() error {
	switch {
	case len(c.Roles) == 0:
		return errors.New("roles is empty: some of gateway, scheduler, worker")
	case c.CQL != nil && c.Cluster == nil:
		return errors.New("cluster-listen is empty: nodes that share a database have to find each other")
	case c.CQL == nil && !(c.Roles.Has(cluster.Scheduler) && c.Roles.Has(cluster.Worker)):
		return errors.New("roles: a node on the embedded store owns its partitions and makes its deliveries itself, since no other node can")
	}
	if c.CQL != nil {
		if err := c.CQL.Validate(); err != nil {
			return err
		}
	}
	if c.Cluster != nil {
		return c.Cluster.Validate()
	}
	return nil
}
