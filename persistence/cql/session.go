package cql

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"
)

// reconnectEvery is how often a node of the database that is down is tried.
const reconnectEvery = time.Second

// noRetry sends a request once. The driver takes a missing policy for three
// retries, and would repeat a conditional write that may have been applied.
type noRetry struct{}

func (noRetry) Attempt(gocql.RetryableQuery) bool     { return false }
func (noRetry) GetRetryType(error) gocql.RetryType    { return gocql.Rethrow }
func (noRetry) AttemptLWT(gocql.RetryableQuery) bool  { return false }
func (noRetry) GetRetryTypeLWT(error) gocql.RetryType { return gocql.Rethrow }

// driver is what every session is made with.
func (c Config) driver() (*gocql.ClusterConfig, error) {
	d := gocql.NewCluster(c.Hosts...)
	d.ProtoVersion = 4
	d.Consistency = gocql.LocalQuorum
	d.SerialConsistency = gocql.LocalSerial
	d.DefaultTimestamp = false // time is the database's: a ballot's for conditional writes
	d.DefaultIdempotence = false
	d.RetryPolicy = noRetry{}
	d.Timeout, d.WriteTimeout = c.Timeout, c.Timeout
	d.ConnectTimeout = c.ConnectTimeout
	d.ReconnectInterval = reconnectEvery
	d.MaxWaitSchemaAgreement = c.SchemaAgreement
	d.NumConns = c.Connections
	d.PageSize = pageRows
	d.Logger = driverLog{c.Logger}
	d.Dialer = &gocql.ScyllaShardAwareDialer{Dialer: net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: d.SocketKeepalive, Control: unheard(c.Timeout)}}
	if c.seams.dial != nil {
		d.Dialer = dialer(c.seams.dial)
	}
	return d, c.login(d)
}

// connect makes the session of a store: to the nodes of one data centre, each
// request to a replica of its partition, first to those that have lately
// answered.
func (c Config) connect(ctx context.Context) (gocqlx.Session, *detour, error) {
	d, err := c.driver()
	if err != nil {
		return gocqlx.Session{}, nil, err
	}
	d.Keyspace = c.Keyspace
	d.HostFilter = gocql.DataCenterHostFilter(c.LocalDC)
	local := gocql.DCAwareRoundRobinPolicy(c.LocalDC, gocql.HostPolicyOptionDisableDCFailover)
	route := newDetour(gocql.TokenAwareHostPolicy(local, gocql.DontShuffleReplicas()))
	d.PoolConfig.HostSelectionPolicy = route
	d.QueryObserver, d.BatchObserver = route, route
	s, err := session(ctx, d)
	return s, route, err
}

// session connects, and gives up when ctx ends; what the driver was doing then
// ends by itself.
func session(ctx context.Context, d *gocql.ClusterConfig) (gocqlx.Session, error) {
	s, err := gocql.NewSessionNonBlocking(*d)
	if err != nil {
		return gocqlx.Session{}, err
	}
	ready := make(chan error, 1)
	go func() { ready <- s.WaitUntilReady() }()
	select {
	case err := <-ready:
		if err != nil {
			s.Close() // a session that failed keeps goroutines until then
			return gocqlx.Session{}, fmt.Errorf("connect: %s", refusedAs(err.Error(), d.SslOpts != nil))
		}
		return gocqlx.NewSession(s), nil
	case <-ctx.Done():
		go func() {
			<-ready
			s.Close()
		}()
		return gocqlx.Session{}, context.Cause(ctx)
	}
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// driverLog takes what the driver prints: news of its connections, which a
// store tells itself when they matter.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any)                 { l.say(fmt.Sprint(v...)) }
func (l driverLog) Printf(format string, v ...any) { l.say(fmt.Sprintf(format, v...)) }
func (l driverLog) Println(v ...any)               { l.say(fmt.Sprintln(v...)) }
func (l driverLog) say(text string)                { l.log.Debug("cql driver", "says", strings.TrimSpace(text)) }
