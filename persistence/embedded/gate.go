package embedded

import "sync"

// gate counts the calls that are inside pebble, which must not be closed under
// them. A call may enter again while it is inside.
type gate struct {
	mu     sync.Mutex
	inside int
	shut   bool
	empty  chan struct{} // closed when it is shut and nobody is inside
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// enter is false once the gate is shut.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.shut && g.inside == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more and waits for those inside. Only its first call
// answers true.
func (g *gate) close() bool {
	g.mu.Lock()
	first := !g.shut
	g.shut = true
	if first && g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	<-g.empty
	return first
}
