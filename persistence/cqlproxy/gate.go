package cqlproxy

import "sync"

// gate lets through, or holds.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed when it opens again; nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isShut() {
		g.open = make(chan struct{})
	}
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut() {
		close(g.open)
		g.open = nil
	}
}

func (g *gate) isShut() bool { return g.open != nil }

// wait returns when the gate is open; false: when done came first.
func (g *gate) wait(done <-chan struct{}) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open == nil {
		return true
	}
	select {
	case <-open:
		return true
	case <-done:
		return false
	}
}
