package cqlproxy

import (
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Action is what becomes of a request. The zero value is Pass.
type Action struct {
	kind  kind
	delay time.Duration
	err   *frame.Error
	then  func()
}

type kind int

const (
	pass kind = iota
	swallow
	delay
	replace
	cut
	drop
	refuse
)

// Pass sends the request on, and its answer back.
func Pass() Action { return Action{kind: pass} }

// Swallow lets the server answer and keeps the answer.
func Swallow() Action { return Action{kind: swallow} }

// Delay holds the answer back for d; other answers go past it.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Replace lets the server answer and gives an error to the driver instead.
func Replace(e *frame.Error) Action { return Action{kind: replace, err: e} }

// Cut lets the server answer and closes the connection instead of passing it on.
func Cut() Action { return Action{kind: cut} }

// Drop keeps the request: the server never sees it, the driver never hears.
func Drop() Action { return Action{kind: drop} }

// Refuse keeps the request and answers it with an error.
func Refuse(e *frame.Error) Action { return Action{kind: refuse, err: e} }

// Then is the action with a function that is called once when it has been
// carried out: for Drop and Refuse when the request was kept, for the others when
// the server has answered and the answer was passed on or kept. It is not called
// when the connection ended before.
func (a Action) Then(f func()) Action {
	a.then = f
	return a
}

func (a Action) done() {
	if a.then != nil {
		a.then()
	}
}

// reaches: the server gets the request.
func (a Action) reaches() bool { return a.kind != drop && a.kind != refuse }
