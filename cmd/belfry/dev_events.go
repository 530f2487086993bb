package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

// eventPrinter prints a line for each execution that has moved. It never
// holds up who tells it: what a slow terminal cannot take is counted instead.
type eventPrinter struct {
	w      io.Writer
	colour bool
	events chan *belfryv1.Event
	lost   atomic.Int64
	done   sync.WaitGroup
}

const eventQueue = 1024

func newEventPrinter(w io.Writer) *eventPrinter {
	p := &eventPrinter{w: w, colour: output.Colour(w), events: make(chan *belfryv1.Event, eventQueue)}
	p.done.Go(p.print)
	return p
}

// event takes an event from whichever goroutine it happens in.
func (p *eventPrinter) event(e *belfryv1.Event) {
	if !strings.HasPrefix(e.GetType(), "execution.") {
		return
	}
	select {
	case p.events <- e:
	default:
		p.lost.Add(1)
	}
}

// stop prints what is waiting. Nobody may call event any more.
func (p *eventPrinter) stop() {
	close(p.events)
	p.done.Wait()
}

func (p *eventPrinter) print() {
	for e := range p.events {
		fmt.Fprintln(p.w, eventLine(happening{
			at: time.UnixMilli(e.GetAt()), job: cmp.Or(e.GetJobId(), e.GetHost()), kind: e.GetType(), attempt: int(e.GetAttempt()),
			late: time.Duration(e.GetLatenessMs()) * time.Millisecond, reason: e.GetReason(), catchUp: e.GetCatchUp(),
		}, p.colour))
		if n := p.lost.Swap(0); n > 0 {
			fmt.Fprintf(p.w, "… and %d more that came too fast to print\n", n)
		}
	}
}
