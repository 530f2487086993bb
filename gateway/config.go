package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Owners reaches the actors that own partitions.
type Owners interface {
	// Ask sends a message to the owner of a partition and waits for the answer.
	// job.ErrNoOwner: nobody answered; the message may still have had effect.
	Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error)
	// Partitions is the number of partitions of the cluster.
	Partitions() int
}

// Queues brings outside workers to what waits for them.
type Queues interface {
	// Claim waits until something of a queue is granted, for wait at most; no grant:
	// nothing came in time. When ctx ends it returns its error, or grants, which the
	// caller must give back then.
	Claim(ctx context.Context, claim *belfryv1.Claim, wait time.Duration) ([]*belfryv1.Grant, error)
}

// Store is what the gateway reads.
type Store interface {
	persistence.Jobs
	persistence.History
	// Healthy is nil while the store accepts writes.
	Healthy() error
}

// Config is what a Gateway needs. Owners and Store are required; the zero value
// of every other field means what its comment says.
type Config struct {
	// Owners answers commands.
	Owners Owners
	// Store answers reads.
	Store Store
	// Queues claims executions for outside workers. nil: claims are refused.
	Queues Queues
	// Brokers are those that jobs may publish to: the kind, nats or kafka, by name.
	Brokers map[string]string
	// Cluster shows and moves the nodes. nil: this process is alone, and says so.
	Cluster Cluster
	// Policy says which addresses targets may have. Zero: public ones, https only.
	Policy job.AddressPolicy
	// Now is the clock that schedules are judged by. nil: time.Now.
	Now func() time.Time
	// Ready says whether this node takes requests, and if not why not.
	// nil: ready while the store is healthy.
	Ready func() (bool, string)
	// Registry receives the gateway's metrics and is served at /metrics.
	// nil: a registry of its own.
	Registry *prometheus.Registry
	// Remember has owners remember every command for 24 h, also those without an
	// Idempotency-Key, so that Owners may send it again when its owner is lost on
	// the way. It costs a row a command. Needed where owners change.
	Remember bool
	// NodeOnly serves only what tells of the node itself: health and metrics.
	NodeOnly bool
	// Version is shown in /healthz. "": "dev".
	Version string
	// Logger receives panics and internal errors. nil: slog.Default().
	Logger *slog.Logger
	// TokenKey is mixed into the hash of page tokens. Gateways with the same key
	// accept each other's tokens. A token is no secret and grants nothing: the
	// hash finds edits and mix-ups. nil: one of its own, drawn at start.
	TokenKey []byte
	// Limits bound what clients may take.
	Limits Limits
}

// Limits bound what clients may take. Zero fields take their defaults.
type Limits struct {
	// Body of a request, and one line of an import, in bytes.
	// 0: DefaultBody.
	Body int64
	// Depth of nesting in JSON. 0: DefaultDepth.
	Depth int
	// InFlight is how many requests may be worked on at once, streams apart;
	// what comes above gets 429. 0: DefaultInFlight.
	InFlight int
	// Streams is how many event streams may be open at once. 0: DefaultStreams.
	Streams int
	// Waiting is how many claims may wait for something to come. 0: DefaultWaiting.
	Waiting int
	// Imports is how many imports may be under way at once; each holds up to
	// ImportWindow jobs in memory. 0: DefaultImports.
	Imports int
	// PerSecond and Burst are the token bucket of one client address; loopback
	// has none. 0: DefaultPerSecond and twice that; negative: no bucket.
	PerSecond float64
	Burst     int
	// Ask bounds the wait for an owner's answer to a command. 0: DefaultAsk.
	Ask time.Duration
	// Describe bounds the wait for what an owner holds in memory.
	// 0: DefaultDescribe.
	Describe time.Duration
	// ImportWindow is how many lines of one import may be unanswered.
	// 0: DefaultImportWindow.
	ImportWindow int
	// EventRing is how many events a stream can be resumed over.
	// 0: DefaultEventRing.
	EventRing int
	// Heartbeat is the pause after which a silent event stream sends a comment.
	// 0: DefaultHeartbeat.
	Heartbeat time.Duration
	// Write bounds one write to a client that does not read. 0: DefaultWrite.
	Write time.Duration
}

// Defaults of Limits.
const (
	DefaultBody         = 256 << 10
	DefaultDepth        = 64
	DefaultInFlight     = 1024
	DefaultStreams      = 64
	DefaultWaiting      = 4096
	DefaultImports      = 4
	DefaultPerSecond    = 2000
	DefaultAsk          = 10 * time.Second
	DefaultDescribe     = 500 * time.Millisecond
	DefaultImportWindow = 32 << 10
	DefaultEventRing    = 10_000
	DefaultHeartbeat    = 15 * time.Second
	DefaultWrite        = 30 * time.Second
)

// Bounds of lists and texts, the same for everybody.
const (
	maxPage        = 500
	defaultPage    = 100
	maxRowsRead    = 5000 // rows that one page of a list reads
	maxReason      = 500
	maxKey         = 255
	previewRuns    = 5
	maxPreviewRuns = 100
	retryAfter     = 1 * time.Second
)

// Validate names the first field that cannot be used.
func (c Config) Validate() error {
	l := c.Limits
	switch {
	case c.Owners == nil:
		return fmt.Errorf("gateway: Owners is nil: commands need somewhere to go")
	case c.Store == nil:
		return fmt.Errorf("gateway: Store is nil: reads need somewhere to go")
	case !job.ValidPartitions(c.Owners.Partitions()):
		return fmt.Errorf("gateway: Owners has %d partitions: a power of two from %d to %d", c.Owners.Partitions(), job.MinPartitions, job.MaxPartitions)
	case l.Body < 0 || l.Depth < 0 || l.InFlight < 0 || l.Streams < 0 || l.Waiting < 0 || l.Imports < 0 || l.ImportWindow < 0 || l.EventRing < 0:
		return fmt.Errorf("gateway: Limits has a negative count: 0 for the default, or more")
	case l.Ask < 0 || l.Describe < 0 || l.Heartbeat < 0 || l.Write < 0:
		return fmt.Errorf("gateway: Limits has a negative duration: 0 for the default, or more")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Ready == nil {
		store := c.Store
		c.Ready = func() (bool, string) {
			if err := store.Healthy(); err != nil {
				return false, err.Error()
			}
			return true, ""
		}
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.TokenKey == nil {
		c.TokenKey = make([]byte, 32)
		_, _ = rand.Read(c.TokenKey) // never fails
	}
	orDefault(&c.Version, "dev")
	c.Limits = c.Limits.withDefaults()
	return c
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.Body, DefaultBody)
	orDefault(&l.Depth, DefaultDepth)
	orDefault(&l.InFlight, DefaultInFlight)
	orDefault(&l.Streams, DefaultStreams)
	orDefault(&l.Waiting, DefaultWaiting)
	orDefault(&l.Imports, DefaultImports)
	orDefault(&l.PerSecond, DefaultPerSecond)
	orDefault(&l.Burst, max(1, int(2*l.PerSecond)))
	orDefault(&l.Ask, DefaultAsk)
	orDefault(&l.Describe, DefaultDescribe)
	orDefault(&l.ImportWindow, DefaultImportWindow)
	orDefault(&l.EventRing, DefaultEventRing)
	orDefault(&l.Heartbeat, DefaultHeartbeat)
	orDefault(&l.Write, DefaultWrite)
	return l
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
