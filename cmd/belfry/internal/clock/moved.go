//go:build belfry_test_clock

package clock

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Now is what the machine's wall clock shows, moved. As nobody set the monotonic
// one, it is not in it.
func Now() time.Time { return moved.Load().at(time.Now().Round(0)) }

// shift is where a clock stands, from an instant on.
type shift struct {
	since  time.Time
	offset time.Duration
	faster float64 // 0.01: by 1 %
}

func (s *shift) at(real time.Time) time.Time {
	return real.Add(s.offset + time.Duration(s.faster*float64(real.Sub(s.since))))
}

// parse reads a shift that begins at an instant.
func parse(text string, since time.Time) (s shift, err error) {
	s.since = since
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > 2 {
		return s, fmt.Errorf("%q is not a time, and maybe how much faster the clock runs", text)
	}
	if s.offset, err = time.ParseDuration(words[0]); err == nil && len(words) == 2 {
		s.faster, err = strconv.ParseFloat(words[1], 64)
	}
	return s, err
}

var moved atomic.Pointer[shift]

func init() {
	move(cmp.Or(os.Getenv("BELFRY_TEST_CLOCK_OFFSET"), "0s"))
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	go func() {
		for range told {
			text, err := os.ReadFile(os.Getenv("BELFRY_TEST_CLOCK_FILE"))
			if err != nil {
				panic(err)
			}
			move(string(text))
		}
	}()
}

// move sets the clock; a test that says nonsense is wrong.
func move(text string) {
	s, err := parse(text, time.Now().Round(0))
	if err != nil {
		panic(err)
	}
	moved.Store(&s)
}
