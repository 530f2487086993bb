//go:build belfry_test_clock

package clock

import (
	"testing"
	"time"
)

func TestMoved(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{ // a minute later
		"0s":         0,
		"1h":         time.Hour,
		"-5s\n":      -5 * time.Second,
		"300ms 0.01": 900 * time.Millisecond,
		"0s -1":      -time.Minute,
	} {
		s, err := parse(text, since)
		later := since.Add(time.Minute)
		if got := s.at(later).Sub(later); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "fast", "1s fast", "1s 1 1"} {
		if _, err := parse(text, since); err == nil {
			t.Errorf("%q has no error", text)
		}
	}
	move("1h")
	if ahead := time.Until(Now()); (ahead - time.Hour).Abs() > time.Minute {
		t.Errorf("it is %s ahead", ahead)
	}
}
