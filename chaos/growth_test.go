package chaos

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a process must not have more and more of: metrics of every node.
var growing = []string{"process_resident_memory_bytes", "process_open_fds", "go_goroutines"}

const (
	sampleEvery = 10 * time.Second
	// A new process fills its pools and caches, and the collector finds its
	// rhythm.
	warmUp = 10 * time.Minute
	// Medians of a shorter time say nothing.
	judgedFrom = 30 * time.Minute
)

// growth is what a process had, again and again, as long as it lived.
type growth struct {
	stop    chan struct{}
	done    sync.WaitGroup
	samples [][]float64 // in the order of growing
	began   time.Time
	took    time.Duration
}

// watch takes samples of a node until end is called. It leaves those out that a
// paused node does not answer.
func watch(n *Node, began time.Time) *growth {
	g := &growth{stop: make(chan struct{}), began: began}
	g.done.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			if values, err := metrics(&n.Process, growing...); err == nil {
				g.samples = append(g.samples, values)
			}
			select {
			case <-tick.C:
			case <-g.stop:
				return
			}
		}
	})
	return g
}

// end returns how each value went.
func (g *growth) end() []trend {
	close(g.stop)
	g.done.Wait()
	g.took = time.Since(g.began)
	samples, span := g.samples, g.took
	if g.took >= judgedFrom {
		samples = samples[int(float64(len(samples))*float64(warmUp)/float64(g.took)):]
		span -= warmUp
	}
	var all []trend
	for i, name := range growing {
		var values []float64
		for _, s := range samples {
			values = append(values, s[i])
		}
		all = append(all, trendOf(name, values, span))
	}
	return all
}

// judge fails a test of half an hour or more in which a process has grown.
func (g *growth) judge(t *testing.T, trends []trend) {
	t.Helper()
	for _, tr := range trends {
		t.Log(tr)
		switch {
		case g.took < judgedFrom:
		case tr.Samples < 3:
			t.Errorf("no slope of %d samples of %s", tr.Samples, tr.What)
		case tr.grown(g.took - warmUp):
			t.Errorf("it grows: %s", tr)
		}
	}
}

// trend is how a value went: the medians of its first, second and last third, and
// the slope from the first to the last.
type trend struct {
	What    string     `json:"what"`
	Samples int        `json:"samples"`
	Thirds  [3]float64 `json:"medians_of_thirds"`
	Slope   float64    `json:"per_cent_an_hour"`
}

// trendOf values that were taken at even distances over a time. A median does not
// see the peaks that a takeover or a pause makes.
func trendOf(what string, values []float64, span time.Duration) trend {
	t := trend{What: what, Samples: len(values)}
	if len(values) < 3 {
		return t
	}
	for i := range t.Thirds {
		t.Thirds[i] = median(values[i*len(values)/3 : (i+1)*len(values)/3])
	}
	if between := span.Hours() * 2 / 3; between > 0 && t.Thirds[0] > 0 { // from middle to middle
		t.Slope = (t.Thirds[2]/t.Thirds[0] - 1) * 100 / between
	}
	return t
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// grown: goroutines and descriptors come and go with what other nodes lose, a
// tenth and ten more or less. Memory of a process of some 100 MB differs by some
// per cent between thirds of an hour, by the rhythm of the collector and what
// takeovers have left to the scavenger: a tenth is beyond that. So an hour shows a
// leak of a tenth an hour; that the slope is below 1 % an hour only a run shows
// that is longer than ten.
func (t trend) grown(span time.Duration) bool {
	if strings.HasSuffix(t.What, "_bytes") {
		return t.Thirds[2] > t.Thirds[0]*(1+max(0.1, 0.01*span.Hours()))
	}
	return t.Thirds[2] > t.Thirds[1]*1.1+10
}

func (t trend) String() string {
	unit, scale := "", 1.0
	if strings.HasSuffix(t.What, "_bytes") {
		unit, scale = " MiB", 1<<20
	}
	return fmt.Sprintf("%s: %.0f, %.0f, %.0f%s, %+.1f %%/h of %d samples", t.What, t.Thirds[0]/scale, t.Thirds[1]/scale, t.Thirds[2]/scale, unit, t.Slope, t.Samples)
}

// metrics are the values of some that have no labels.
func metrics(p *Process, names ...string) ([]float64, error) {
	resp, err := probe.Get(p.URL() + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	values := make([]float64, len(names))
	for i := range values {
		values[i] = math.NaN()
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if i := slices.Index(names, name); i >= 0 {
			if values[i], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	if i := slices.IndexFunc(values, math.IsNaN); i >= 0 {
		return nil, fmt.Errorf("no metric %s at %s (%v)", names[i], p.URL(), lines.Err())
	}
	return values, nil
}

// TestTrend: leaks are seen, and noise, peaks and a start that is slow are not.
func TestTrend(t *testing.T) {
	t.Parallel()
	const n = 300
	series := func(f func(i int) float64) (out []float64) {
		for i := range n {
			out = append(out, f(i))
		}
		return out
	}
	hour := 50 * time.Minute
	for name, c := range map[string]struct {
		what   string
		span   time.Duration
		values []float64
		slope  float64
		grown  bool
	}{
		"flat":                  {"go_goroutines", hour, series(func(int) float64 { return 200 }), 0, false},
		"a goroutine each 10 s": {"go_goroutines", hour, series(func(i int) float64 { return 200 + float64(i) }), 143, true},
		"peaks":                 {"go_goroutines", hour, series(func(i int) float64 { return 200 + 5000*float64(i%10/8) }), 0, false},
		"descriptors, noise":    {"process_open_fds", hour, series(func(i int) float64 { return 50 + float64(i*7919%20) }), 0, false},
		"descriptors, a step":   {"process_open_fds", hour, series(func(i int) float64 { return 50 + 20*float64(i/200) }), 72, true},
		"memory, some noise":    {"x_bytes", hour, series(func(i int) float64 { return 1e8 + 1e6*float64(i*7919%16) }), 0, false},
		"memory, 30 % an hour":  {"x_bytes", hour, series(func(i int) float64 { return 1e8 * (1 + 0.25*float64(i)/n) }), 28.8, true},
		"memory, 0.5 %/h long":  {"x_bytes", 30 * time.Hour, series(func(i int) float64 { return 1e8 * (1 + 0.15*float64(i)/n) }), 0.5, false},
		"memory, 2 %/h long":    {"x_bytes", 30 * time.Hour, series(func(i int) float64 { return 1e8 * (1 + 0.60*float64(i)/n) }), 1.8, true},
		"too little":            {"x_bytes", hour, []float64{1, 2}, 0, false},
	} {
		got := trendOf(c.what, c.values, c.span)
		if math.Abs(got.Slope-c.slope) > 2+0.05*c.slope || got.grown(c.span) != c.grown {
			t.Errorf("%s: %v, grown %t; want %.1f %%/h and %t", name, got, got.grown(c.span), c.slope, c.grown)
		}
	}
}
