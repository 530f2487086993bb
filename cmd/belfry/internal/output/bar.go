package output

import (
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
)

// Bar is a progress bar on a terminal, and nothing anywhere else.
type Bar struct {
	w       progress.Writer
	tracker *progress.Tracker
	done    chan struct{}
}

// NewBar starts a bar that counts bytes up to a total; 0 when it is unknown.
func NewBar(out io.Writer, name string, total int64) *Bar {
	if !IsTerminal(out) {
		return &Bar{}
	}
	b := &Bar{w: progress.NewWriter(), tracker: &progress.Tracker{Message: name, Total: total, Units: progress.UnitsBytes}, done: make(chan struct{})}
	b.w.SetOutputWriter(out)
	b.w.SetUpdateFrequency(200 * time.Millisecond)
	b.w.SetStyle(progress.StyleBlocks)
	b.w.AppendTracker(b.tracker)
	go func() {
		defer close(b.done)
		b.w.Render()
	}()
	return b
}

// Set moves the bar and says what else there is to say.
func (b *Bar) Set(value int64, message string) {
	if b.w == nil {
		return
	}
	b.tracker.UpdateMessage(message)
	b.tracker.SetValue(value)
}

// Stop leaves the bar where it is.
func (b *Bar) Stop() {
	if b.w == nil {
		return
	}
	b.tracker.MarkAsDone()
	b.w.Stop()
	<-b.done
}
