package partition

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A simulation is a number of acts, each drawn from a seed of its own: so an act
// that is left out changes nothing about the others' luck. When a life fails,
// acts are left out as long as it still fails, and what remains is printed as a
// command that replays it, and as a line for testdata/seeds.txt, whose lives are
// played always.
//
//	BELFRY_SIM_SEEDS=10000     how many seeds (50)
//	BELFRY_SIM_FIRST=1         the first of them
//	BELFRY_SIM_SEED=77         only this one
//	BELFRY_SIM_DROP=1,2,5      without these acts

// plan is a life to be played.
type plan struct {
	seed    uint64
	dropped map[int]bool // acts that are left out
	// sparse lives check the invariants every so many steps: whoever plays
	// thousands finds out all the same, a little later in a life, and replays it.
	sparse bool
}

// sparseEvery is how many steps such a life makes between two checks.
const sparseEvery = 16

// dense is how many lives of a run check every step.
const dense = 150

// few is how many are played when nobody says how many: with the race detector a
// life costs ten times as much.
const few = 50

// luck is the source of an act; its seeds are not those of lives.
func (p plan) luck(act int) uint64 { return p.seed<<16 | uint64(act+1) }

func (p plan) String() string {
	text := fmt.Sprint("BELFRY_SIM_SEED=", p.seed)
	if len(p.dropped) > 0 {
		text += " BELFRY_SIM_DROP=" + p.drops()
	}
	return text
}

func (p plan) drops() string {
	var out []string
	for _, act := range slices.Sorted(maps.Keys(p.dropped)) {
		out = append(out, strconv.Itoa(act))
	}
	return strings.Join(out, ",")
}

// explore plays many lives, those of the list first, on all processors.
func explore(t *testing.T, name string, acts int, play func(testing.TB, plan)) int {
	t.Helper()
	plans := append(unforgotten(t, name), lives(t)...)
	var mu sync.Mutex
	var failed *plan
	next, played := 0, 0
	take := func() (p plan, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil || next == len(plans) {
			return p, false
		}
		next++
		return plans[next-1], true
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for p, ok := take(); ok; p, ok = take() {
				bad := attempt(p, play) != ""
				mu.Lock()
				played++
				if bad && failed == nil {
					failed = &p
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if failed != nil {
		p := shrink(*failed, acts, play)
		t.Fatalf("%s\nto replay it:\n\t%s go test -run '%s' ./actors/partition\nin testdata/seeds.txt:\n\t%s %d %s",
			attempt(p, play), p, t.Name(), name, p.seed, p.drops())
	}
	return played
}

// lives are the seeds that the environment asks for.
func lives(t *testing.T) []plan {
	t.Helper()
	number := func(variable string, otherwise uint64) uint64 {
		text := os.Getenv(variable)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return n
	}
	if seed := number("BELFRY_SIM_SEED", 0); seed > 0 {
		return []plan{{seed: seed, dropped: numbers(t, os.Getenv("BELFRY_SIM_DROP"))}}
	}
	first := number("BELFRY_SIM_FIRST", 1)
	var out []plan
	for i := range number("BELFRY_SIM_SEEDS", few) {
		out = append(out, plan{seed: first + i, sparse: i >= dense})
	}
	return out
}

// unforgotten are the lives of a simulation that have failed once.
func unforgotten(t *testing.T, name string) []plan {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []plan
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != name {
			continue
		}
		seed, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			t.Fatalf("testdata/seeds.txt: %q: %v", line, err)
		}
		out = append(out, plan{seed: seed, dropped: numbers(t, strings.Join(fields[2:], ""))})
	}
	return out
}

func numbers(t *testing.T, list string) map[int]bool {
	t.Helper()
	out := map[int]bool{}
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("acts %q: %v", list, err)
		}
		out[n] = true
	}
	return out
}

// shrink leaves acts out while the life still fails: halves first, then quarters,
// down to single ones, until none is left that can go.
func shrink(p plan, acts int, play func(testing.TB, plan)) plan {
	p.sparse = false
	if attempt(p, play) == "" {
		p.sparse = true // it takes fewer checks to fail, which is a finding too
		return p
	}
	for size := acts / 2; size > 0; {
		gone := false
		for from := 0; from < acts; from += size {
			fewer := plan{seed: p.seed, dropped: maps.Clone(p.dropped)}
			if fewer.dropped == nil {
				fewer.dropped = map[int]bool{}
			}
			for act := from; act < min(from+size, acts); act++ {
				fewer.dropped[act] = true
			}
			if len(fewer.dropped) > len(p.dropped) && attempt(fewer, play) != "" {
				p, gone = fewer, true
			}
		}
		if !gone || size > 1 {
			size /= 2
		}
	}
	return p
}

// attempt plays a life and returns how it failed; "": it did not.
func attempt(p plan, play func(testing.TB, plan)) string {
	t := &trial{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				t.failures = append(t.failures, fmt.Sprintf("panic: %v\n%s", r, debug.Stack()))
			}
		}()
		play(t, p)
	}()
	<-done
	if len(t.failures) == 0 {
		return ""
	}
	return strings.Join(append(t.log, t.failures...), "\n")
}

// trial is the test of one life: its failure is not the end of the test.
type trial struct {
	testing.TB
	log, failures []string
}

func (t *trial) Helper()                   {}
func (t *trial) Log(args ...any)           { t.log = append(t.log, fmt.Sprint(args...)) }
func (t *trial) Logf(f string, a ...any)   { t.Log(fmt.Sprintf(f, a...)) }
func (t *trial) Error(args ...any)         { t.failures = append(t.failures, fmt.Sprint(args...)) }
func (t *trial) Errorf(f string, a ...any) { t.Error(fmt.Sprintf(f, a...)) }
func (t *trial) Failed() bool              { return len(t.failures) > 0 }
func (t *trial) Fatal(args ...any)         { t.Error(args...); runtime.Goexit() }
func (t *trial) Fatalf(f string, a ...any) { t.Error(fmt.Sprintf(f, a...)); runtime.Goexit() }

// TestShrink: of a life that fails when acts 3 and 17 meet, those two are left.
func TestShrink(t *testing.T) {
	p := shrink(plan{seed: 5}, 40, func(t testing.TB, p plan) {
		if !p.dropped[3] && !p.dropped[17] {
			t.Fatalf("both")
		}
	})
	if len(p.dropped) != 38 || p.dropped[3] || p.dropped[17] {
		t.Errorf("left out: %v", p.drops())
	}
	if again := numbers(t, p.drops()); !maps.Equal(again, p.dropped) {
		t.Errorf("read again: %v", again)
	}
}
