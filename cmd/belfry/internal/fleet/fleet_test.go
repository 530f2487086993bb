package fleet

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

var from = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func jobOf(t testing.TB, id string, timing job.Timing) Job {
	t.Helper()
	timing.Job = id
	s, err := job.Compile(timing)
	if err != nil {
		t.Fatal(err)
	}
	return Job{ID: id, Timing: timing, Schedule: s}
}

// fleet is 60 jobs at midnight, one every minute, one with jitter, one with H and
// one interval.
func fleet(t testing.TB) []Job {
	var out []Job
	for n := range 60 {
		out = append(out, jobOf(t, fmt.Sprint("daily-", n), job.Timing{Expr: "0 0 * * *"}))
	}
	return append(out,
		jobOf(t, "minutely", job.Timing{Expr: "* * * * *"}),
		jobOf(t, "spread", job.Timing{Expr: "H 12 * * *"}),
		jobOf(t, "late", job.Timing{Expr: "0 18 * * *", Jitter: time.Hour}),
		jobOf(t, "quick", job.Timing{Expr: "@every 10s", Anchor: from.Add(6 * time.Hour), EndsAt: from.Add(6*time.Hour + 2*time.Minute)}))
}

// Every count against a walk over all slots of all jobs.
func TestLoad(t *testing.T) {
	l, jobs := New(from, from.Add(24*time.Hour), 5*time.Minute), fleet(t)
	want, total := make([]int64, 24*60), int64(0)
	for _, j := range jobs {
		l.Add(j)
		for at, ok := j.Schedule.Next(from.Add(-time.Nanosecond)); ok && at.Before(l.To); at, ok = j.Schedule.Next(at) {
			want[j.Schedule.Due(j.ID, at).Sub(from)/time.Minute]++
			total++
		}
	}
	l.Flush()
	if !slices.Equal(l.Minutes, want) || l.Executions != total || l.Jobs != 64 || l.Fixed != 61 {
		t.Errorf("%d executions of %d jobs, %d fixed; want %d", l.Executions, l.Jobs, l.Fixed, total)
	}
	now, jittered, hashed := l.Peaks()
	if now != 61 || math.Abs(jittered-13) > 1e-6 || hashed > 7.01 || hashed < 6.99 {
		t.Errorf("peaks %d, %g with jitter, %g with H", now, jittered, hashed) // 60 over five minutes and one; two jobs a minute and quick's six
	}
	sum := func(v []float64) (n float64) {
		for _, x := range v {
			n += x
		}
		return n
	}
	if a, b := sum(l.Jittered), sum(l.Hashed); math.Abs(a-float64(total)) > 1e-6 || math.Abs(b-float64(total)) > 1e-6 {
		t.Errorf("%g executions with jitter and %g with H, want %d", a, b, total)
	}
	worst := l.Worst(2)
	for _, m := range worst {
		for _, j := range jobs {
			m.Add(&j, 3)
		}
	}
	if m := worst[0]; !m.At.Equal(from) || m.Executions != 61 || m.Jobs != 61 || len(m.Most) != 3 || m.Most[0].JobID != "daily-0" {
		t.Errorf("the worst minute: %+v", m)
	}
	if m := worst[1]; m.Executions != 7 || m.Jobs != 2 || m.Most[0] != (Share{"quick", 6}) || m.Most[1] != (Share{"minutely", 1}) {
		t.Errorf("the next: %+v", m)
	}
}

// However many schedules there are, few are kept.
func TestMemoryIsBounded(t *testing.T) {
	l := New(from, from.Add(time.Hour), 0)
	for n := range 3 * maxGroups {
		l.Add(jobOf(t, "j", job.Timing{Expr: fmt.Sprintf("%d %d %d * *", n%60, n/60%24, 1+n/1440%28)}))
		if len(l.groups) > maxGroups {
			t.Fatalf("%d schedules are kept", len(l.groups))
		}
	}
	if l.Flush(); l.Jobs != 3*maxGroups || len(l.groups) != 0 {
		t.Errorf("%d jobs, %d groups", l.Jobs, len(l.groups))
	}
}

func TestChart(t *testing.T) {
	l := New(from, from.Add(24*time.Hour), 5*time.Minute)
	for _, j := range fleet(t) {
		l.Add(j)
	}
	l.Flush()
	var b strings.Builder
	if err := l.SVG(&b); err != nil {
		t.Fatal(err)
	}
	dec, paths := xml.NewDecoder(strings.NewReader(b.String())), 0
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	if paths != 4 || b.Len() > 100_000 || !strings.Contains(b.String(), ">61<") || !strings.Contains(b.String(), "03-01 12:00") {
		t.Errorf("%d paths in %d bytes", paths, b.Len())
	}
	if err := New(from, from, 0).SVG(&b); err != nil {
		t.Error(err)
	}
}

func BenchmarkLoad(b *testing.B) {
	jobs := fleet(b)
	for b.Loop() {
		l := New(from, from.Add(24*time.Hour), 5*time.Minute)
		for range 100_000 / len(jobs) {
			for _, j := range jobs {
				l.Add(j)
			}
		}
		l.Flush()
	}
}
