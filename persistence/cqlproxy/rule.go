package cqlproxy

import (
	"math/rand/v2"
)

// Rule decides about requests, one at a time.
type Rule func(Request) Action

// PassAll is the rule of a proxy that was given none.
func PassAll(Request) Action { return Pass() }

// Once does a to the first request that which is true of.
func Once(which func(Request) bool, a Action) Rule { return Times(1, which, a) }

// Times does a to the first n requests that which is true of.
func Times(n int, which func(Request) bool, a Action) Rule {
	return func(r Request) Action {
		if n == 0 || !which(r) {
			return Pass()
		}
		n--
		return a
	}
}

// Always does a to every request that which is true of.
func Always(which func(Request) bool, a Action) Rule { return Times(-1, which, a) }

// Weighted is an action and how often it is drawn, in proportion to the others.
type Weighted struct {
	Weight int
	Action Action
}

// Drawn draws an action for each request that which is true of. The draws are as
// many as those requests, so that a seed tells the whole story.
func Drawn(r *rand.Rand, which func(Request) bool, actions ...Weighted) Rule {
	sum := 0
	for _, w := range actions {
		sum += w.Weight
	}
	return func(q Request) Action {
		if sum == 0 || !which(q) {
			return Pass()
		}
		at := r.IntN(sum)
		for _, w := range actions {
			if at -= w.Weight; at < 0 {
				return w.Action
			}
		}
		return Pass()
	}
}
