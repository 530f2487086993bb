package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Report is the outcome of one benchmark.
type Report struct {
	Bench    string   // its name
	Machine  Machine  // where it ran
	Params   Values   // how it was called
	Metrics  []Metric // what was measured, in the order to show
	Problems []string // promises that were broken; none is the only good answer
}

// Machine is what numbers depend on most.
type Machine struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	Go   string `json:"go"`

	// Load is how many processes wanted to run when the benchmark began, where
	// that is known: numbers of a machine that has other work say little.
	Load string `json:"load,omitzero"`
}

// ThisMachine describes the machine of this process.
func ThisMachine() Machine {
	m := Machine{CPUs: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

// Metric is a number. Its unit is the end of its name.
type Metric struct {
	Name  string
	Value float64
	Goal  *Goal // nil: it has none
}

// Goal is what a number should be.
type Goal struct {
	AtLeast bool // else at most
	Limit   float64
}

// Met says whether the number is as it should be; true without a goal.
func (m Metric) Met() bool {
	switch {
	case m.Goal == nil:
		return true
	case m.Goal.AtLeast:
		return m.Value >= m.Goal.Limit
	}
	return m.Value <= m.Goal.Limit
}

func (g *Goal) String() string {
	if g == nil {
		return ""
	}
	if g.AtLeast {
		return "≥ " + number(g.Limit)
	}
	return "≤ " + number(g.Limit)
}

// Text is the value for a table.
func (m Metric) Text() string { return number(m.Value) }

// number has no more digits than mean something.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return strconv.FormatInt(int64(v), 10)
	case v > 1000 || v < -1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// Values are names and values in an order of their own.
type Values []Value

// Value is a name and a value.
type Value struct {
	Name  string
	Value any
}

// MarshalJSON is an object in the order of the values.
func (v Values) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i, item := range v {
		if i > 0 {
			buf.WriteByte(',')
		}
		name, err := json.Marshal(item.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(item.Value)
		if err != nil {
			return nil, err
		}
		buf.Write(name)
		buf.WriteByte(':')
		buf.Write(value)
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// MarshalJSON has the metrics as one object, by name.
func (r Report) MarshalJSON() ([]byte, error) {
	metrics, goals := Values{}, Values{}
	for _, m := range r.Metrics {
		metrics = append(metrics, Value{m.Name, m.Value})
		if m.Goal != nil {
			goals = append(goals, Value{m.Name, Values{{"goal", m.Goal.String()}, {"met", m.Met()}}})
		}
	}
	problems := r.Problems
	if problems == nil {
		problems = []string{}
	}
	return json.Marshal(Values{
		{"bench", r.Bench}, {"machine", r.Machine}, {"params", r.Params}, {"metrics", metrics}, {"goals", goals}, {"problems", problems},
	})
}

// metric adds a number without a goal.
func (r *Report) metric(name string, v float64) {
	r.Metrics = append(r.Metrics, Metric{Name: name, Value: v})
}

// atLeast and atMost add a number with a goal.
func (r *Report) atLeast(name string, v, goal float64) {
	r.Metrics = append(r.Metrics, Metric{name, v, &Goal{AtLeast: true, Limit: goal}})
}

func (r *Report) atMost(name string, v, goal float64) {
	r.Metrics = append(r.Metrics, Metric{name, v, &Goal{Limit: goal}})
}

// verdict adds what a ledger says: counts that have to be zero, and how late
// deliveries were.
func (r *Report) verdict(v Verdict) {
	r.metric("expected", float64(v.Expected))
	r.metric("received", float64(v.Received))
	r.atMost("early", float64(v.Early), 0)
	r.atMost("missing", float64(v.Missing), 0)
	r.atMost("doubled_ids", float64(v.DoubledIDs), 0)
	if v.Repeats {
		r.metric("repeated", float64(v.DoubledSlots))
	} else {
		r.atMost("doubled_keys", float64(v.DoubledKeys), 0)
		r.atMost("doubled_deliveries", float64(v.DoubledSlots), 0)
	}
	r.atMost("unexpected", float64(v.Unexpected), 0)
	r.metric(fmt.Sprintf("late_over_%s", v.LateLimit), float64(v.Late))
	r.Problems = append(r.Problems, v.Broken()...)
}

// lateness adds percentiles, with goals where there are any.
func (r *Report) lateness(d Distribution, p50, p99, longest float64) {
	for _, m := range []struct {
		name string
		at   float64
		goal float64
	}{{"lateness_p50_ms", 0.5, p50}, {"lateness_p99_ms", 0.99, p99}, {"lateness_p99.9_ms", 0.999, 0}, {"lateness_max_ms", 1, longest}} {
		if m.goal > 0 {
			r.atMost(m.name, milliseconds(d.At(m.at)), m.goal)
			continue
		}
		r.metric(m.name, milliseconds(d.At(m.at)))
	}
}

// Unmet lists the goals that were missed.
func (r Report) Unmet() []string {
	var out []string
	for _, m := range r.Metrics {
		if !m.Met() {
			out = append(out, fmt.Sprintf("%s is %s, and the goal is %s", m.Name, m.Text(), m.Goal))
		}
	}
	return out
}
