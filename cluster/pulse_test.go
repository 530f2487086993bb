package cluster

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// TestAnswersToEarlierBeatsAreVoid: of two attempts with one number the second
// to be answered says nothing about the beats after it, whatever it says.
func TestAnswersToEarlierBeatsAreVoid(t *testing.T) {
	for _, late := range []error{nil, persistence.ErrBeatLost, job.ErrUnavailable} {
		p := newPulse(Settings{})
		first := p.begin(time.Hour)
		second := p.begin(time.Hour + 300*time.Millisecond)
		if !p.moved(second, nil, time.Hour+310*time.Millisecond) {
			t.Fatal("the answer to the second attempt is not news")
		}
		next := p.begin(time.Hour + 500*time.Millisecond)
		until := time.Hour + 2750*time.Millisecond
		if p.moved(first, late, time.Hour+510*time.Millisecond) {
			t.Errorf("the late answer %v is news", late)
		}
		if p.n != 2 || next.n != 2 || p.until != until || p.tries != 1 || p.flying != 1 {
			t.Errorf("after the late answer %v: %+v, want beat 2 under way and trust until %s", late, p, until)
		}
		p.moved(next, nil, time.Hour+520*time.Millisecond)
		if p.n != 3 || p.until != until+500*time.Millisecond || p.flying != 0 {
			t.Errorf("after beat 2: %+v", p)
		}
	}
}

// TestPulsePace is the pace of one beat under a store that is silent, and of the
// next one.
func TestPulsePace(t *testing.T) {
	p := newPulse(Settings{})
	now := time.Hour
	var attempts []attempt
	for _, wait := range []time.Duration{0, 300, 500, 500} {
		now += max(p.wait(now), 0)
		if at := now - p.last; p.tries > 0 && at != wait*time.Millisecond {
			t.Errorf("attempt %d goes out %s after the one before, want %s", p.tries+1, at, wait*time.Millisecond)
		}
		attempts = append(attempts, p.begin(now))
	}
	if p.wait(now+time.Hour) != never {
		t.Errorf("a fifth attempt is made beside four")
	}
	p.moved(attempts[0], job.ErrUnavailable, now)
	if wait := p.wait(now); wait != 500*time.Millisecond {
		t.Errorf("with three under way the next goes out in %s", wait)
	}
	p.moved(attempts[1], nil, now)
	if wait := p.wait(now); wait > 0 {
		t.Errorf("a beat that is overdue goes out in %s, want at once", wait)
	}
}
