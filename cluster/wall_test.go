package cluster

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFace plays readings and verdicts. The machine's clock and what is shown are
// against a clock that is right; between two lines a second goes by.
func TestFace(t *testing.T) {
	const ms = time.Millisecond
	good := ClockVerdict{Compared: 3, Agreed: true}
	off := func(by time.Duration) ClockVerdict {
		return ClockVerdict{Compared: 3, Agreed: true, Offset: by, Off: true}
	}
	two := ClockVerdict{Compared: 2, Offset: 30 * time.Minute}
	split := ClockVerdict{Compared: 4, Offset: 30 * time.Minute}
	type line struct {
		machine time.Duration
		verdict *ClockVerdict
		shown   time.Duration
	}
	for name, lines := range map[string][]line{
		"it is followed":                     {{0, nil, 0}, {300 * ms, nil, 300 * ms}, {600 * ms, nil, 600 * ms}, {100 * ms, nil, 100 * ms}},
		"a step is not believed":             {{5 * time.Second, nil, 0}, {5 * time.Second, nil, 0}, {-time.Minute, nil, 0}},
		"a step is undone":                   {{5 * time.Second, nil, 0}, {10 * ms, nil, 10 * ms}},
		"a step is wrong":                    {{5 * time.Second, new(off(5 * time.Second)), 0}, {5 * time.Second, new(off(5 * time.Second)), 0}, {0, nil, 0}},
		"a step is right":                    {{5 * time.Second, new(good), 5 * time.Second}},
		"a step that nobody can judge":       {{time.Hour, new(two), time.Hour}},
		"a step while nobody agrees":         {{time.Hour, new(split), time.Hour}},
		"it is off at first":                 {{0, new(off(time.Hour)), -time.Hour}, {0, nil, -time.Hour}, {-time.Hour, nil, -time.Hour}},
		"it runs away":                       {{400 * ms, new(good), 400 * ms}, {510 * ms, new(off(510 * ms)), 0}, {520 * ms, new(off(520 * ms)), 0}, {400 * ms, nil, 0}, {200 * ms, nil, 200 * ms}},
		"a verdict is read with an error":    {{5 * time.Second, new(off(5*time.Second + 40*ms)), -40 * ms}, {5 * time.Second, new(off(5 * time.Second)), -40 * ms}},
		"it is off, and the others die":      {{time.Hour, new(off(time.Hour)), 0}, {time.Hour, new(two), 0}, {time.Hour, nil, 0}, {0, nil, 0}},
		"it is off, and the others disagree": {{time.Hour, new(off(time.Hour)), 0}, {time.Hour, new(split), 0}},
		"it is off, and was right":           {{time.Hour, new(off(time.Hour)), 0}, {time.Hour, new(good), time.Hour}},
	} {
		var f face
		for i, l := range lines {
			boot := time.Duration(i+1) * time.Second
			f.show(boot+l.machine, boot)
			if l.verdict != nil {
				f.judge(l.machine, *l.verdict)
			}
			if got := f.show(boot+l.machine, boot) - boot; got != l.shown {
				t.Errorf("%s, line %d: it shows %s, want %s", name, i+1, got, l.shown)
			}
		}
	}
}

// TestFaceIsWithinTheTolerance: while most clocks are good and compared after
// each step, what is shown is off by no more than the tolerance, whatever the
// machine's clock does.
func TestFaceIsWithinTheTolerance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f face
		machine, off := time.Duration(0), false
		for i := range 50 {
			boot := time.Duration(i) * time.Second
			if rapid.Bool().Draw(t, "step") {
				machine = time.Duration(rapid.IntRange(-2000, 2000).Draw(t, "ms")) * time.Millisecond
			}
			if shown := f.show(boot+machine, boot) - boot; shown.Abs() > 2*ClockTolerance {
				t.Fatalf("%d: the machine is %s off, and %s is shown before a verdict", i, machine, shown)
			}
			v := JudgeClock([]time.Duration{-machine, -machine}, off)
			off = v.Off
			f.judge(machine, v)
			if shown := f.show(boot+machine, boot) - boot; shown.Abs() > ClockTolerance {
				t.Fatalf("%d: the machine is %s off, and %s is shown", i, machine, shown)
			}
		}
	})
}

// TestWallReadsTwice: a process that is stopped between the two clocks takes no
// step from it.
func TestWallReadsTwice(t *testing.T) {
	stopped, boot := false, time.Duration(0)
	w := newWall(func() time.Time {
		now := time.Unix(1_000_000, int64(boot))
		if !stopped && boot > 0 {
			stopped, boot = true, boot+time.Minute
		}
		return now
	}, func() time.Duration { return boot })
	boot = time.Second
	if got, want := w.Now(), time.Unix(1_000_000, int64(time.Second+time.Minute)); !got.Equal(want) || !stopped {
		t.Errorf("it is %s, want %s", got, want)
	}
}
