package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/persistence"
)

// BeatConfig is what a Beater works with.
type BeatConfig struct {
	// Beats is the store of the beats. nil: the store serves one process alone,
	// and there is nobody to give a sign of life to.
	Beats persistence.Beats
	// Self is the process that lives.
	Self Member
	// Settings of the cluster.
	Settings Settings
	// Metrics, if set, counts beats.
	Metrics *BeatMetrics
	// Logger is told when trust ends and comes back. nil: slog.Default().
	Logger *slog.Logger
}

// Beater keeps this process alive in the eyes of the others, and knows until
// when it is (see pulse). Owners ask Alive before each thing that they send.
type Beater struct {
	cfg   BeatConfig
	log   *slog.Logger
	now   func() time.Duration // BOOTTIME
	until atomic.Int64         // when trust ends, in ns of that clock; 0: there is none

	awake  atomic.Int64  // when the loop ran last, in ns of that clock
	lapses atomic.Uint64 // how often trust came back after it had ended

	pulse   *pulse // of the loop alone
	answers chan answered
	fenced  bool  // trust has ended, and that was said
	failed  error // of the last attempt that failed, until one succeeds

	end   context.CancelFunc
	ended chan struct{} // closed with the loop; nil: it was never started
	first chan struct{} // closed with the first beat
}

// answered is an attempt and what came of it.
type answered struct {
	attempt
	stored int64 // reading: the beat of our row
	err    error
}

// NewBeater makes a beater, which is not alive before Start. The error names a
// setting that cannot be used.
func NewBeater(cfg BeatConfig) (*Beater, error) {
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	b := &Beater{
		cfg: cfg, log: cfg.Logger, now: Boottime,
		pulse: newPulse(cfg.Settings), answers: make(chan answered, maxFlying), first: make(chan struct{}),
	}
	if b.log == nil {
		b.log = slog.Default()
	}
	return b, nil
}

// Alive tells whether others must still take this process for alive: its last
// acknowledged beat was begun less than TTL - Margin ago, suspension counted, and
// it has not stood still since for so long that gossip may have called it dead.
// It may be called from anywhere, and costs a reading of the clock.
func (b *Beater) Alive() bool {
	if b.cfg.Beats == nil {
		return true
	}
	now := b.now()
	return now < time.Duration(b.until.Load()) && !b.stood(now)
}

// stood tells that the process has stood still, and the loop has not run since.
func (b *Beater) stood(now time.Duration) bool {
	return now-time.Duration(b.awake.Load()) >= stall
}

// wake notes that the loop runs, and ends trust when the process stood still.
func (b *Beater) wake() {
	now := b.now()
	if b.stood(now) {
		b.log.Warn("this process stood still", "node", b.cfg.Self.Node, "for", (now - time.Duration(b.awake.Load())).String())
		b.pulse.stalled(now)
		b.until.Store(0)
	}
	b.awake.Store(int64(now)) // after that: in between nobody trusts anything
}

// Start begins to beat, and returns when the first beat is acknowledged. Errors:
// that of ctx, with what the store last said; nothing goes on then.
func (b *Beater) Start(ctx context.Context) error {
	if b.cfg.Beats == nil {
		return nil
	}
	live, end := context.WithCancel(context.WithoutCancel(ctx))
	b.end, b.ended = end, make(chan struct{})
	b.awake.Store(int64(b.now()))
	go b.run(live)
	select {
	case <-b.first:
		return nil
	case <-ctx.Done():
		b.halt()
		return fmt.Errorf("first beat of node %s: %w: %v", b.cfg.Self.Node, context.Cause(ctx), b.failed)
	}
}

// Stop ends the beats and removes the node's row, so that nobody waits for it.
// It is called when nothing is owned and nothing is under way any more: until
// then the beats go on. An error is the store's; the row then vanishes by
// itself, a day later.
func (b *Beater) Stop(ctx context.Context) error {
	if b.ended == nil {
		return nil
	}
	b.halt()
	return b.cfg.Beats.Forget(ctx, b.cfg.Self.Owner())
}

// halt ends the loop and every attempt. Nothing is trusted any more.
func (b *Beater) halt() {
	b.end()
	<-b.ended
	b.until.Store(0)
}

// run is the loop: attempts when they are due, answers when they come.
func (b *Beater) run(ctx context.Context) {
	defer close(b.ended)
	var flying sync.WaitGroup
	defer flying.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-b.answers:
			b.wake()
			b.take(a)
		case <-timer.C:
			b.wake()
		}
		b.watch()
		for b.pulse.wait(b.now()) <= 0 {
			a := b.pulse.begin(b.now())
			flying.Go(func() { b.answers <- b.try(ctx, a) })
		}
		timer.Reset(min(b.pulse.wait(b.now()), stall/8))
	}
}

// try makes an attempt.
func (b *Beater) try(ctx context.Context, a attempt) answered {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Settings.attemptTimeout())
	defer cancel()
	self := b.cfg.Self
	if a.n == 0 {
		stored, err := b.read(ctx)
		return answered{attempt: a, stored: stored, err: err}
	}
	beat := persistence.Beat{Owner: self.Owner(), N: a.n, Address: self.Address}
	for _, r := range self.Roles {
		beat.Roles = append(beat.Roles, string(r))
	}
	return answered{attempt: a, err: b.cfg.Beats.Beat(ctx, beat)}
}

// read finds the beat of our own row; 0: it has none.
func (b *Beater) read(ctx context.Context) (int64, error) {
	rows, err := b.cfg.Beats.Beats(ctx, b.cfg.Self.Node)
	for _, row := range rows {
		if row.Owner == b.cfg.Self.Owner() {
			return row.N, err
		}
	}
	return 0, err
}

// take judges an answer.
func (b *Beater) take(a answered) {
	now := b.now()
	begun := b.pulse.first
	moved := false
	if a.n == 0 {
		b.pulse.found(a.attempt, a.stored, a.err, now)
	} else {
		moved = b.pulse.moved(a.attempt, a.err, now)
	}
	if b.pulse.until > 0 && now >= time.Duration(b.until.Load()) {
		b.lapses.Add(1)
	}
	b.until.Store(int64(b.pulse.until))
	b.cfg.Metrics.answered(moved, now-begun, a.err)
	if a.err != nil {
		b.failed = a.err
	}
	if moved {
		b.failed = nil
		b.begun()
	}
}

// begun tells Start of the first beat.
func (b *Beater) begun() {
	select {
	case <-b.first:
	default:
		close(b.first)
	}
}

// watch says when trust has ended, and when it is back.
func (b *Beater) watch() {
	fenced := !b.Alive()
	b.cfg.Metrics.selfFenced(fenced)
	select {
	case <-b.first:
	default:
		return // a node that has not begun has nothing to lose
	}
	if fenced == b.fenced {
		return
	}
	b.fenced = fenced
	if fenced {
		b.log.Error("this node sends nothing until its beat is acknowledged", "node", b.cfg.Self.Node, "ttl", b.cfg.Settings.ttl(), "err", b.failed)
		return
	}
	b.log.Info("this node is alive again", "node", b.cfg.Self.Node)
}

// BeatMetrics counts the beats of a node.
type BeatMetrics struct {
	took   prometheus.Histogram
	failed prometheus.Counter
	fenced prometheus.Gauge
}

// NewBeatMetrics makes the metrics and registers them; with a nil registerer
// they count for nobody.
func NewBeatMetrics(reg prometheus.Registerer) *BeatMetrics {
	m := &BeatMetrics{
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "belfry", Name: "beat_duration_seconds",
			Help:    "Time from the first attempt of a beat until it was acknowledged.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "belfry", Name: "beats_failed_total", Help: "Attempts to beat that the store did not acknowledge.",
		}),
		fenced: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "belfry", Name: "self_fenced", Help: "1 while this node sends nothing because its last acknowledged beat is too old.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.took, m.failed, m.fenced)
	}
	return m
}

func (m *BeatMetrics) answered(moved bool, took time.Duration, err error) {
	if m == nil {
		return
	}
	if moved {
		m.took.Observe(took.Seconds())
	}
	if err != nil {
		m.failed.Inc()
	}
}

func (m *BeatMetrics) selfFenced(fenced bool) {
	if m == nil {
		return
	}
	value := 0.0
	if fenced {
		value = 1
	}
	m.fenced.Set(value)
}
