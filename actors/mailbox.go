package actors

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// Reserved marks messages that a full mailbox still takes: reports of an
// actor's own children, timers and flushes, whose number is bounded by what
// the actor itself started.
type Reserved interface {
	// Reserved does nothing; it is the mark.
	Reserved()
}

// mailbox is a bounded actor.Mailbox. Posting takes a lock for some 20 ns and
// never waits for the actor.
type mailbox struct {
	limit int
	full  func(pid *actor.PID, message any) // called without the lock, in the sender's goroutine

	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu        sync.Mutex
	system    queue
	user      queue
	open      bool // handlers are registered, so messages may be processed
	running   bool // a goroutine is in process, or about to be
	suspended bool // after a panic, until the supervisor has decided
	stopping  bool // a Stop was taken out
}

var _ actor.Mailbox = (*mailbox)(nil)

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start implements actor.Mailbox: from here on messages are processed, those
// that came while the actor was being spawned included.
func (m *mailbox) Start() {
	m.mu.Lock()
	m.open = true
	start := m.wake()
	m.mu.Unlock()
	if start {
		m.dispatcher.Schedule(m.process)
	}
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if m.user.len >= m.limit && !passes(message) {
		m.mu.Unlock()
		m.full(m.self(), message)
		return
	}
	m.user.push(message)
	start := m.wake()
	m.mu.Unlock()
	if start {
		m.dispatcher.Schedule(m.process)
	}
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	if _, ok := message.(*actor.Started); ok {
		m.system.pushFront(message) // also before a Stop or Watch that was faster
	} else {
		m.system.push(message)
	}
	start := m.wake()
	m.mu.Unlock()
	if start {
		m.dispatcher.Schedule(m.process)
	}
}

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.len
}

// wake reports whether the caller must start a goroutine; it is called with
// the lock held.
func (m *mailbox) wake() bool {
	ready := m.system.len > 0 || m.user.len > 0 && !m.suspended
	if !m.open || m.running || !ready {
		return false
	}
	m.running = true
	return true
}

func (m *mailbox) process() {
	for m.run() {
	}
}

// run hands messages to the actor until none is left; it returns true when a
// panic cut it short and the rest waits.
func (m *mailbox) run() (again bool) {
	var message any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
			again = true
		}
	}()
	for n := 1; ; n++ {
		var system, ok bool
		message, system, ok = m.take()
		switch {
		case !ok:
			return false
		case system:
			m.invoker.InvokeSystemMessage(message)
		default:
			m.invoker.InvokeUserMessage(message)
		}
		if n%m.dispatcher.Throughput() == 0 {
			runtime.Gosched()
		}
	}
}

// take is the next message. Suspend and Resume are for the mailbox itself. A
// Restart after a Stop is dropped: it would bring an actor back that nobody
// can reach.
func (m *mailbox) take() (message any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.system.len > 0 {
		message := m.system.pop()
		switch message.(type) {
		case *actor.SuspendMailbox:
			m.suspended = true
		case *actor.ResumeMailbox:
			m.suspended = false
		case *actor.Restart:
			if !m.stopping {
				return message, true, true
			}
		case *actor.Stop:
			m.stopping = true
			return message, true, true
		default:
			return message, true, true
		}
	}
	if m.user.len == 0 || m.suspended {
		m.running = false
		return nil, false, false
	}
	return m.user.pop(), false, true
}

// self is the actor's PID, nil while it is being spawned.
func (m *mailbox) self() *actor.PID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx, ok := m.invoker.(interface{ Self() *actor.PID }); ok {
		return ctx.Self()
	}
	return nil
}

// passes reports whether a message goes into a full mailbox.
func passes(message any) bool {
	switch actor.UnwrapEnvelopeMessage(message).(type) {
	case Reserved, *actor.PoisonPill:
		return true
	}
	return false
}
