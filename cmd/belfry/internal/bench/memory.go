package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is the server under test, where its process can be seen.
type Process interface {
	PID() int
	// Restart stops the server, starts it on the same data, and says how long
	// it took from the start until it was ready. It may not be possible.
	Restart(ctx context.Context) (time.Duration, error)
}

// Memory measures a server that holds many jobs and has nothing to do.
type Memory struct {
	Count       int
	Connections int
	Size        int
	Settle      time.Duration // before idle time is measured
	Idle        time.Duration // over which processor time is measured
	Restart     bool
}

// Goals of Memory, for a million jobs of 300 bytes.
const (
	goalRSS     = 1.2 * 1024 // MiB
	goalIdle    = 5          // percent of one core
	goalRestart = 30         // seconds
)

// Run registers the jobs and looks at the process.
func (m Memory) Run(ctx context.Context, e Env, p Process) (Report, error) {
	report := Report{Bench: "memory", Machine: ThisMachine(), Params: Values{
		{"count", m.Count}, {"job_bytes", m.Size}, {"idle", m.Idle.String()},
	}}
	empty, err := rss(p.PID())
	if err != nil {
		return report, err
	}
	j := Jobs{Plan: Plan{Prefix: runID("memory"), Jobs: m.Count, Slots: 1}, URL: e.Sink.URL(), Schedule: sleeping(time.Now()), Size: m.Size}
	took, err := e.imports(ctx, j, m.Connections)
	if err != nil {
		return report, err
	}
	report.metric("registrations_per_s", float64(m.Count)/took.Seconds())
	report.metric("empty_rss_mib", empty)
	e.Note("%d jobs registered in %s; idle for %s", m.Count, took.Round(time.Millisecond), m.Settle+m.Idle)
	if err := m.idle(ctx, &report, p, ""); err != nil {
		return report, err
	}
	if !m.Restart {
		return report, nil
	}
	ready, err := p.Restart(ctx)
	if err != nil {
		return report, fmt.Errorf("restart the server: %w", err)
	}
	report.atMost("restart_to_ready_s", ready.Seconds(), goalRestart)
	return report, m.idle(ctx, &report, p, "restarted_")
}

// idle measures resident memory and the processor time of a server at rest.
func (m Memory) idle(ctx context.Context, report *Report, p Process, prefix string) error {
	if err := pause(ctx, m.Settle); err != nil {
		return err
	}
	before, err := cpuTime(p.PID())
	if err != nil {
		return err
	}
	start := time.Now()
	if err := pause(ctx, m.Idle); err != nil {
		return err
	}
	after, err := cpuTime(p.PID())
	if err != nil {
		return err
	}
	resident, err := rss(p.PID())
	if err != nil {
		return err
	}
	report.atMost(prefix+"rss_mib", resident, goalRSS)
	report.metric(prefix+"rss_bytes_per_job", resident*(1<<20)/float64(m.Count))
	report.atMost(prefix+"idle_cpu_percent", 100*(after-before).Seconds()/time.Since(start).Seconds(), goalIdle)
	return nil
}

// sleeping is cron schedules that are due from 6 to 18 hours from now.
func sleeping(now time.Time) func(i int) string {
	from := now.UTC().Add(6 * time.Hour)
	return func(i int) string {
		at := from.Add(time.Duration(i%(12*60)) * time.Minute)
		return fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
	}
}

// rss is the resident memory of a process in MiB.
func rss(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of the server's process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no resident memory", pid)
}

// ticksPerSecond is the kernel's unit of processor time, the same on all
// machines that Linux runs on.
const ticksPerSecond = 100

// cpuTime is the processor time that a process has used.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of the server's process: %w", err)
	}
	_, rest, ok := strings.Cut(string(text), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("the times of process %d cannot be read", pid)
	}
	ticks := int64(0)
	for _, f := range fields[11:13] { // user, system
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the times of process %d cannot be read: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
