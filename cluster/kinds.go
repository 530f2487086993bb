package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/actors"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Handler carries out one execution of a job whose target is an actor. nil is
// success; an error is a failed attempt, which the job's retry policy judges,
// unless it is made by Final or RetryAfter. The context ends with the attempt's
// timeout, and when the process leaves.
//
// Executions of one identity run at the same time, if they are due so. One may
// come more than once, always under the same Key.
type Handler func(ctx context.Context, e Execution) error

// Execution is one occurrence of a job, as its handler gets it.
type Execution struct {
	ID           string
	JobID        string
	Key          string // idempotency key: the same for each repeat
	ScheduledFor time.Time
	Attempt      int   // from 1
	Epoch        int64 // grows with each change of the partition's owner: a fencing token
	Kind         string
	Identity     string
	Payload      []byte
}

// Final makes an error after which another attempt cannot help.
func Final(err error) error { return &failure{err: err, final: true} }

// RetryAfter makes an error after which the next attempt comes no sooner than
// after d.
func RetryAfter(d time.Duration, err error) error { return &failure{err: err, after: d} }

type failure struct {
	err   error
	final bool
	after time.Duration
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Kinds are the sorts of actors that a process hosts for targets. A kind is in
// one of the two maps.
type Kinds struct {
	Handlers map[string]Handler
	// Actors are for those that need an actor of their own: it gets
	// *belfryv1.Perform and answers the sender *belfryv1.Performed within the
	// timeout, and it gets what others send to its identity. It must not wait in
	// Receive.
	Actors map[string]func(identity string) actor.Actor

	Idle time.Duration // after which an actor that nobody used is stopped. 0: 10 min
	Most int           // identities at once. 0: 10,000
	Busy int           // executions at once in all of them. 0: 1,000
}

// Names are the kinds, sorted.
func (k Kinds) Names() []string {
	return slices.Sorted(maps.Keys(merged(k.Handlers, k.Actors)))
}

func merged(a map[string]Handler, b map[string]func(string) actor.Actor) map[string]bool {
	out := map[string]bool{}
	for name := range a {
		out[name] = true
	}
	for name := range b {
		out[name] = true
	}
	return out
}

func (k Kinds) check() error {
	for name := range k.Actors {
		if _, twice := k.Handlers[name]; twice {
			return fmt.Errorf("kind %q has a handler and an actor: leave one out", name)
		}
	}
	return nil
}

// hostActor is the name under which a process hosts actors of kinds.
const hostActor = "kinds"

var (
	kindsKind  = actors.Kind{Name: "kinds", Mailbox: 16_384}
	hostedKind = actors.Kind{Name: "hosted", Mailbox: 4_096} // a panic stops it; the next message to its identity makes another
)

// kindsHost is the actor that hosts the actors of kinds: one for each identity,
// from the first message to it until nobody has used it for a while.
type kindsHost struct {
	Kinds
	self   *actor.PID
	props  *actors.Factory
	byName map[string]*hosted // by kind and identity
	byPID  map[string]string
	spawns int
	calls  *calls // executions that actors of the service have not answered
	busy   atomic.Int64
	ended  chan struct{}
}

// hosted is the actor of one identity.
type hosted struct {
	pid  *actor.PID
	last atomic.Int64 // when it was used, ns of the process's clock
	runs atomic.Int64 // executions that it has not answered
	own  bool         // it is an actor of the service
}

func (h *hosted) use() { h.last.Store(int64(time.Since(processStart))) }

var processStart = time.Now()

type sweep struct{}

func (sweep) Reserved() {}

// startKinds starts hosting. The remote transport must run.
func startKinds(props *actors.Factory, k Kinds, gone func(reason any)) (*kindsHost, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	orDefault(&k.Idle, 10*time.Minute)
	orDefault(&k.Most, 10_000)
	orDefault(&k.Busy, 1_000)
	h := &kindsHost{Kinds: k, props: props, calls: newCalls(props.System(), k.Busy), byName: map[string]*hosted{}, byPID: map[string]string{}, ended: make(chan struct{})}
	guardian := props.Guardian(kindsKind, func(_ *actor.PID, reason any) { gone(reason) })
	var err error
	h.self, err = props.System().Root.SpawnNamed(props.Props(kindsKind, func() actor.Actor { return h }, props.Supervises(hostedKind, nil), guardian), hostActor)
	if err != nil {
		return nil, fmt.Errorf("host kinds: %w", err)
	}
	return h, nil
}

// quiet waits until nothing has run for 100 ms, or ctx ends. Within that time
// comes what was sent here before anybody heard that this process drains.
func (h *kindsHost) quiet(ctx context.Context) {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for idle := 0; idle < 5; idle++ {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if h.busy.Load() > 0 {
			idle = -1
		}
	}
}

// close waits until nothing runs, or ctx ends, and stops: handlers that still run
// then have their context cancelled.
func (h *kindsHost) close(ctx context.Context) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for h.busy.Load() > 0 && ctx.Err() == nil {
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return h.props.System().Root.StopFuture(h.self).Wait()
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Receive is the table of what a host of kinds understands.
func (h *kindsHost) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		go h.tick(ctx.ActorSystem().Root, ctx.Self())
	case *actor.Stopping:
		close(h.ended)
	case *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
	case *belfryv1.Activate:
		h.activate(ctx, m)
	case *belfryv1.Perform:
		h.perform(ctx, m)
	case sweep:
		h.sweep(ctx)
	case *actor.Terminated:
		h.terminated(m.Who)
	}
}

func (h *kindsHost) activate(ctx actor.Context, m *belfryv1.Activate) {
	one, err := h.find(ctx, m.GetKind(), m.GetIdentity())
	if err != nil {
		ctx.Respond(&belfryv1.Activated{Error: err.Error()})
		return
	}
	ctx.Respond(&belfryv1.Activated{Id: one.pid.GetId()})
}

// perform passes an execution on to its identity, with whoever sent it as the
// one to answer.
func (h *kindsHost) perform(ctx actor.Context, m *belfryv1.Perform) {
	one, err := h.find(ctx, m.GetKind(), m.GetIdentity())
	if err != nil {
		ctx.Respond(&belfryv1.Performed{Error: err.Error(), RetryAfterMs: busyPause.Milliseconds()})
		return
	}
	if one.own {
		h.follow(ctx, one, m)
		return
	}
	ctx.Forward(one.pid)
}

// busyPause is after which a process that has no room is worth another try.
const busyPause = time.Second

// find is the actor of an identity, which it starts if there is none.
func (h *kindsHost) find(ctx actor.Context, kind, identity string) (*hosted, error) {
	name := kind + "\x00" + identity
	if one := h.byName[name]; one != nil {
		one.use()
		return one, nil
	}
	if len(h.byName) >= h.Most {
		return nil, fmt.Errorf("%d identities have an actor here, and there may be no more", h.Most)
	}
	one := new(hosted)
	produce, err := h.producer(kind, identity, one)
	if err != nil {
		return nil, err
	}
	_, one.own = h.Actors[kind]
	h.spawns++ // a name is not used twice: no message for one reaches the next
	one.pid, err = ctx.SpawnNamed(h.props.Props(hostedKind, produce), fmt.Sprintf("a%d", h.spawns))
	if err != nil {
		return nil, err
	}
	one.use()
	h.byName[name], h.byPID[one.pid.GetId()] = one, name
	return one, nil
}

func (h *kindsHost) producer(kind, identity string, one *hosted) (func() actor.Actor, error) {
	if make := h.Actors[kind]; make != nil {
		return func() actor.Actor { return &used{make(identity), one} }, nil
	}
	if handle := h.Handlers[kind]; handle != nil {
		return func() actor.Actor { return newPerformer(handle, one, &h.busy, int64(h.Busy)) }, nil
	}
	return nil, fmt.Errorf("this process hosts no actors of kind %q", kind)
}

// used is an actor that notes when it is used.
type used struct {
	actor.Actor
	one *hosted
}

func (u *used) Receive(ctx actor.Context) {
	u.one.use()
	u.Actor.Receive(ctx)
}

func (h *kindsHost) tick(root *actor.RootContext, self *actor.PID) {
	t := time.NewTicker(max(h.Idle/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			root.Send(self, sweep{})
		case <-h.ended:
			return
		}
	}
}

// sweep stops the actors that nobody uses, after what waits for them. Whoever
// still writes to one gets a dead letter, and looks it up again.
func (h *kindsHost) sweep(ctx actor.Context) {
	for name, one := range h.byName {
		if one.runs.Load() == 0 && time.Since(processStart)-time.Duration(one.last.Load()) > h.Idle {
			delete(h.byName, name)
			ctx.Poison(one.pid)
		}
	}
}

// terminated forgets an actor. One that was swept may have a successor already.
func (h *kindsHost) terminated(who *actor.PID) {
	name := h.byPID[who.GetId()]
	delete(h.byPID, who.GetId())
	if one := h.byName[name]; one != nil && one.pid.Equal(who) {
		delete(h.byName, name)
	}
}

// performer is the actor of one identity of a kind that has a handler.
type performer struct {
	handle  Handler
	one     *hosted
	busy    *atomic.Int64
	most    int64
	ctx     context.Context
	cancel  context.CancelFunc
	running map[attemptKey][]*actor.PID // who waits for the answer
}

type attemptKey struct {
	execution string
	attempt   int32
}

// performed is an execution that has ended.
type performed struct {
	key    attemptKey
	answer *belfryv1.Performed
}

func (performed) Reserved() {}

func newPerformer(handle Handler, one *hosted, busy *atomic.Int64, most int64) *performer {
	p := &performer{handle: handle, one: one, busy: busy, most: most, running: map[attemptKey][]*actor.PID{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Receive is the table of what a performer understands.
func (p *performer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Stopping:
		p.cancel()
	case *belfryv1.Perform:
		p.begin(ctx, m)
	case performed:
		p.end(ctx, m)
	}
}

// begin runs the handler beside the mailbox. A repeat of what runs waits for the
// same answer.
func (p *performer) begin(ctx actor.Context, m *belfryv1.Perform) {
	key := attemptKey{m.GetExecutionId(), m.GetAttempt()}
	if waiting, runs := p.running[key]; runs {
		p.running[key] = append(waiting, ctx.Sender())
		return
	}
	if !enter(ctx, p.busy, p.most) {
		return
	}
	p.one.runs.Add(1)
	p.running[key] = []*actor.PID{ctx.Sender()}
	root, self := ctx.ActorSystem().Root, ctx.Self()
	go func() { root.Send(self, performed{key, p.run(m)}) }()
}

// enter counts an execution, or refuses it when too many run.
func enter(ctx actor.Context, busy *atomic.Int64, most int64) bool {
	if busy.Add(1) <= most {
		return true
	}
	busy.Add(-1)
	ctx.Respond(&belfryv1.Performed{Error: fmt.Sprintf("%d executions run here, and there may be no more", most), RetryAfterMs: busyPause.Milliseconds()})
	return false
}

func (p *performer) end(ctx actor.Context, m performed) {
	for _, pid := range p.running[m.key] {
		if pid != nil {
			ctx.Send(pid, m.answer)
		}
	}
	delete(p.running, m.key)
	p.one.use()
	p.one.runs.Add(-1)
	p.busy.Add(-1) // after the answer was sent: whoever waits for the end of all may leave then
}

// run calls the handler. A panic in it is a failed attempt.
func (p *performer) run(m *belfryv1.Perform) (out *belfryv1.Performed) {
	defer func() {
		if r := recover(); r != nil {
			out = &belfryv1.Performed{Error: fmt.Sprintf("the handler panicked: %v", r)}
		}
	}()
	ctx := p.ctx
	if ms := m.GetTimeoutMs(); ms > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	return answerOf(p.handle(ctx, Execution{
		ID: m.GetExecutionId(), JobID: m.GetJobId(), Key: m.GetKey(), ScheduledFor: time.UnixMilli(m.GetScheduledFor()).UTC(),
		Attempt: int(m.GetAttempt()), Epoch: m.GetEpoch(), Kind: m.GetKind(), Identity: m.GetIdentity(), Payload: m.GetPayload(),
	}))
}

func answerOf(err error) *belfryv1.Performed {
	var f *failure
	switch {
	case err == nil:
		return &belfryv1.Performed{Succeeded: true}
	case errors.As(err, &f):
		return &belfryv1.Performed{Error: err.Error(), Final: f.final, RetryAfterMs: f.after.Milliseconds()}
	}
	return &belfryv1.Performed{Error: err.Error()}
}
