package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Spike measures many one-time jobs that are due at one instant.
type Spike struct {
	Count       int
	Connections int // of the import
	Size        int // bytes of a job
	Lead        time.Duration
	Patience    time.Duration // without a delivery, until the rest counts as missing
	Quiet       time.Duration // after the last delivery, in which doubles would come
	Runs        int
	Raw         *Raw // nil: no comparison
	RawShare    float64
	APILimit    time.Duration
}

// Run measures, and reports the run whose throughput is the median.
func (s Spike) Run(ctx context.Context, e Env) (Report, error) {
	report := Report{Bench: "spike", Machine: ThisMachine(), Params: Values{
		{"count", s.Count}, {"job_bytes", s.Size}, {"lead", s.Lead.String()}, {"runs", s.Runs},
	}}
	raw, err := s.compare(ctx, e, &report)
	if err != nil {
		return report, err
	}
	var runs []spikeRun
	for n := range s.Runs {
		r, err := s.once(ctx, e, n)
		if err != nil {
			return report, err
		}
		e.Note("run %d of %d: %s deliveries/s, %d early, %d missing, %d doubled", n+1, s.Runs, number(r.verdict.PerSecond()), r.verdict.Early, r.verdict.Missing, r.verdict.DoubledKeys+r.verdict.DoubledSlots)
		report.metric(fmt.Sprintf("run_%d_per_s", n+1), r.verdict.PerSecond())
		if n < s.Runs-1 {
			report.Problems = append(report.Problems, r.verdict.Broken()...)
		}
		runs = append(runs, r)
	}
	s.conclude(&report, runs, raw)
	return report, nil
}

// compare measures what the machine can do without a scheduler.
func (s Spike) compare(ctx context.Context, e Env, report *Report) (float64, error) {
	if s.Raw == nil {
		return 0, nil
	}
	e.Note("raw deliveries first, for comparison")
	raw, err := s.Raw.Run(ctx, e.Sink)
	if err != nil {
		return 0, err
	}
	best := raw.Metrics[len(raw.Metrics)-1].Value
	report.metric("raw_best_per_s", best)
	return best, nil
}

func (s Spike) conclude(report *Report, runs []spikeRun, raw float64) {
	var problems []string
	for _, r := range runs {
		problems = append(problems, r.verdict.Broken()...)
	}
	slices.SortFunc(runs, func(a, b spikeRun) int { return int(a.verdict.PerSecond() - b.verdict.PerSecond()) })
	median := runs[len(runs)/2]
	v := median.verdict
	report.metric("registrations_per_s", float64(s.Count)/median.imported.Seconds())
	report.verdict(v)
	report.Problems = problems
	report.metric("first_after_due_ms", milliseconds(v.First.Sub(median.due)))
	report.metric("last_after_due_ms", milliseconds(v.Last.Sub(median.due)))
	report.metric("deliveries_per_s", v.PerSecond())
	if raw > 0 {
		report.atLeast("share_of_raw", v.PerSecond()/raw, s.RawShare)
	}
	report.lateness(v.Lateness, 0, 0, 0)
	for _, side := range []struct {
		name string
		d    Distribution
	}{{"get", median.api.get}, {"post", median.api.post}} {
		report.metric("api_"+side.name+"_requests", float64(side.d.Len()))
		report.metric("api_"+side.name+"_p50_ms", milliseconds(side.d.At(0.5)))
		report.metric("api_"+side.name+"_p99_ms", milliseconds(side.d.At(0.99)))
		report.atMost("api_"+side.name+"_max_ms", milliseconds(side.d.Max()), milliseconds(s.APILimit))
	}
	report.atMost("api_errors", float64(median.api.errors), 0)
}

// spikeRun is one run.
type spikeRun struct {
	due      time.Time
	imported time.Duration
	verdict  Verdict
	api      apiSamples
}

func (s Spike) once(ctx context.Context, e Env, n int) (spikeRun, error) {
	due := time.Now().Add(s.Lead).Truncate(time.Second)
	run := spikeRun{due: due}
	j := Jobs{
		Plan: Plan{Prefix: runID(fmt.Sprintf("spike%d", n)), Jobs: s.Count, Slots: 1, First: func(int) time.Time { return due }},
		URL:  e.Sink.URL(), Size: s.Size,
		Schedule: func(int) string { return due.UTC().Format(stamp) },
	}
	ledger := NewLedger(j.Plan)
	e.Sink.Use(ledger)
	var err error
	if run.imported, err = e.imports(ctx, j, s.Connections); err != nil {
		return run, err
	}
	left := time.Until(due)
	if left < 2*time.Second {
		return run, fmt.Errorf("registering %d jobs took %s and left %s before they are due: give a longer --lead than %s", s.Count, run.imported.Round(time.Millisecond), left.Round(time.Millisecond), s.Lead)
	}
	e.Note("%d jobs registered at %s/s, due in %s", s.Count, number(float64(s.Count)/run.imported.Seconds()), left.Round(time.Millisecond))
	if err := pause(ctx, left-time.Second); err != nil {
		return run, err
	}
	group, watched := errgroup.WithContext(ctx)
	sampling, stop := context.WithCancel(watched)
	group.Go(func() error {
		samples, err := e.sample(sampling, j)
		run.api = samples
		return err
	})
	group.Go(func() error {
		defer stop()
		return settle(watched, ledger, s.Patience, s.Quiet)
	})
	if err := group.Wait(); err != nil {
		return run, err
	}
	run.verdict = ledger.Judge(time.Second)
	return run, nil
}

// apiSamples is how the API answered while deliveries went out.
type apiSamples struct {
	get, post Distribution
	errors    int
}

const samplePause = 20 * time.Millisecond

// sample reads a job of the spike and registers another one, again and again.
func (e Env) sample(ctx context.Context, j Jobs) (apiSamples, error) {
	var out apiSamples
	other := j
	other.Plan.Prefix, other.Schedule, other.Starts = j.Plan.Prefix+"x", far(time.Now()), nil
	var gets, posts []time.Duration
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	post, err := dialWire(ctx, e.Server, http.MethodPost, "/v1/jobs")
	if err != nil {
		return out, err
	}
	defer post.close()
	for i := 0; ctx.Err() == nil; i++ {
		at := time.Now()
		status, err := getStatus(ctx, client, e.Server+"/v1/jobs/"+j.Plan.JobID(i*7919%j.Plan.Jobs))
		if ctx.Err() != nil {
			break
		}
		gets = append(gets, time.Since(at))
		if err != nil || status != http.StatusOK {
			out.errors++
		}
		at = time.Now()
		status, _, err = post.do("", other.line(nil, i))
		posts = append(posts, time.Since(at))
		if err != nil {
			return out, err
		}
		if status != http.StatusCreated {
			out.errors++
		}
		if pause(ctx, samplePause) != nil {
			break
		}
	}
	out.get, out.post = Distribute(gets), Distribute(posts)
	return out, nil
}

func getStatus(ctx context.Context, c *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
