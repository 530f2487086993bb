package cluster

import (
	"sync"
	"time"
)

// Wall is the wall clock that a node acts by: the machine's, except that a step
// of it is not believed before it was compared with the other nodes' clocks.
// Until then, and for as long as the machine's clock is known to be wrong, it
// goes on from where it was, by BOOTTIME.
//
// So an owner whose machine is set five seconds ahead sends nothing five seconds
// early in the moment until it is told to give its partitions up. Of a step
// that there is nobody to compare with, nobody can say that it is wrong: it is
// followed. A step of less than the tolerance is followed at once, as the clock
// may be off by as much anyhow.
type Wall struct {
	machine func() time.Time
	boot    func() time.Duration

	mu   sync.Mutex
	face face
}

// newWall makes one that believes what the machine shows now.
func newWall(machine func() time.Time, boot func() time.Duration) *Wall {
	w := &Wall{machine: machine, boot: boot}
	now, since := w.read()
	w.face.ahead = now - since
	return w
}

// Now is the time by this clock. It may be called from anywhere.
func (w *Wall) Now() time.Time {
	now, boot := w.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Unix(0, int64(w.face.show(now, boot)))
}

// judge has the clock follow a verdict about the machine's, as it was that much
// ahead of BOOTTIME.
func (w *Wall) judge(ahead time.Duration, v ClockVerdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.face.judge(ahead, v)
}

// readWithin is how long the reading of two clocks may take: a process that is
// stopped between them would take the pause for a step.
const readWithin = time.Millisecond

// read is what both clocks show at one moment, as time since 1970 and since the
// machine was started.
func (w *Wall) read() (now, boot time.Duration) {
	for {
		before := w.boot()
		now = time.Duration(w.machine().UnixNano())
		if after := w.boot(); after-before < readWithin {
			return now, before + (after-before)/2
		}
	}
}

// face is what a Wall shows. It is pure.
type face struct {
	ahead time.Duration // of BOOTTIME: as of the last reading that was believed
	wrong bool          // the machine's clock is known to be wrong
}

// show takes a reading of both clocks, and says what time it is.
func (f *face) show(now, boot time.Duration) time.Duration {
	limit := ClockTolerance
	if f.wrong {
		limit = clockBack
	}
	if ahead := now - boot; (ahead - f.ahead).Abs() <= limit {
		f.ahead, f.wrong = ahead, false
		return now
	}
	return boot + f.ahead
}

// judge follows a verdict. A clock that was wrong is not believed again only
// because nobody is left to compare it with: then what it shows next to BOOTTIME
// tells when it is right.
func (f *face) judge(ahead time.Duration, v ClockVerdict) {
	proved := v.Compared >= 3 && v.Agreed
	switch {
	case v.Off && !f.wrong:
		f.ahead, f.wrong = ahead-v.Offset, true
	case !v.Off && (proved || !f.wrong):
		f.ahead, f.wrong = ahead, false
	}
}
