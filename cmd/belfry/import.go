package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newImport(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "import",
		Short: "Register many jobs from a file",
		Long: `Register many jobs from a file; "-" is stdin. Every line is an upsert, so that a repeat does no harm.
An import that is broken off goes on where it was when the same command is given again: how far it
came stands in FILE.progress. Lines that are refused go to FILE.errors with the reason, and the
exit code is 6.`,
	}, newImportJSONL(a), newImportCrontab(a), newImportDkron(a), newImportCronJobs(a))
}

// importFlags are common to all kinds of files.
type importFlags struct {
	dry, restart bool
	errors       string
	connections  int
	compare      compareFlags
}

func (f *importFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.dry, "dry-run", false, "read and check the file here and print the jobs; send nothing")
	flags.BoolVar(&f.restart, "restart", false, "begin at the first line even if an earlier import was broken off")
	flags.StringVar(&f.errors, "errors", "", "file for refused lines (default FILE.errors)")
	flags.IntVar(&f.connections, "connections", 2, "requests on the way at once")
}

func newImportJSONL(a *app) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:     "jsonl FILE",
		Short:   "Import jobs, one JSON object a line, as `belfry export` writes them",
		Example: "  belfry export > jobs.jsonl\n  belfry import jsonl jobs.jsonl --server http://other:8380",
		Args:    exactly("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importFile(cmd.Context(), args[0], f, "", importer.JSONL)
		},
	}
	f.add(cmd)
	return cmd
}

// importFile imports a file, or checks it.
func (a *app) importFile(ctx context.Context, name string, f importFlags, options string, source func(io.Reader) importer.Source) error {
	in, err := openFile(name, a.stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	run := &importRun{a: a, name: name, failures: failureFile{path: f.errors}}
	if run.failures.path == "" {
		run.failures.path = name + ".errors"
		if name == "-" {
			run.failures.path = "stdin.errors"
		}
	}
	switch {
	case f.compare.days > 0:
		return run.compare(source(in), f.compare)
	case f.dry:
		return run.check(source(in))
	}
	return run.send(ctx, source(in), f, options)
}

// importRun is one import from its file to its summary.
type importRun struct {
	a        *app
	name     string
	failures failureFile
	point    *importer.Checkpoint
	saved    time.Time
	bar      *output.Bar
}

// summary is what an import came to.
type summary struct {
	Lines    int64   `json:"lines"`
	Created  int64   `json:"created"`
	Updated  int64   `json:"updated"`
	Failed   int64   `json:"failed"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"jobs_per_second"`
	Failures string  `json:"failures,omitzero"`
}

func (r *importRun) send(ctx context.Context, src importer.Source, f importFlags, options string) error {
	c, err := r.a.client("")
	if err != nil {
		return err
	}
	before, err := r.resume(c.Server(), options, f.restart)
	if err != nil {
		return err
	}
	r.bar = output.NewBar(r.a.stderr, "import", r.size())
	start := time.Now()
	now, err := importer.Run(ctx, src, importer.Config{
		Sender: c, Connections: f.connections, After: before.Line, Progress: r.progress, Failure: r.failures.add,
	})
	r.bar.Stop()
	if closeErr := r.failures.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return r.broken(ctx, now, err)
	}
	if r.point != nil {
		if err := r.point.Done(); err != nil {
			return err
		}
	}
	return r.finish(before, now, time.Since(start))
}

// resume finds where an earlier import of the file was broken off.
func (r *importRun) resume(server, options string, restart bool) (importer.Progress, error) {
	if r.name == "-" {
		return importer.Progress{}, nil
	}
	point, err := importer.OpenCheckpoint(r.name, server, options)
	if err != nil {
		return importer.Progress{}, err
	}
	r.point = point
	if restart {
		return importer.Progress{}, point.Done()
	}
	before, err := point.Load()
	if before.Line > 0 {
		r.failures.more = true
		r.a.note("an earlier import was broken off: going on after line %d (--restart begins again)", before.Line)
	}
	return before, err
}

func (r *importRun) size() int64 {
	info, err := os.Stat(r.name)
	if r.name == "-" || err != nil {
		return 0
	}
	return info.Size()
}

// progress saves how far it is, a few times a second at most.
func (r *importRun) progress(p importer.Progress) error {
	r.bar.Set(p.Offset, fmt.Sprintf("%d jobs", p.Created+p.Updated))
	if r.point == nil || time.Since(r.saved) < 200*time.Millisecond {
		return nil
	}
	r.saved = time.Now()
	return r.point.Save(p)
}

// broken keeps what is known for the next time.
func (r *importRun) broken(ctx context.Context, p importer.Progress, err error) error {
	if r.point != nil && p.Line > 0 {
		if saveErr := r.point.Save(p); saveErr != nil {
			return errors.Join(err, saveErr)
		}
		r.a.note("broken off after line %d; the same command goes on from there", p.Line)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (r *importRun) finish(before, now importer.Progress, took time.Duration) error {
	s := summary{Lines: now.Line - before.Line, Created: now.Created, Updated: now.Updated, Failed: now.Failed, Seconds: took.Seconds()}
	s.PerSec = float64(s.Created+s.Updated) / max(took.Seconds(), 1e-9)
	if s.Failed > 0 {
		s.Failures = r.failures.path
	}
	if err := output.One(r.a.stdout, r.a.format, summaryView(), s); err != nil {
		return err
	}
	return partly(s.Failed, s.Created+s.Updated, s.Failures)
}

func partly(failed, done int64, file string) error {
	switch {
	case failed == 0:
		return nil
	case done == 0:
		return fmt.Errorf("no line was taken; the reasons are in %s", file)
	}
	return &coded{exitPartly, fmt.Errorf("%d lines were refused; the reasons are in %s", failed, file)}
}

func summaryView() output.View[summary] {
	count := func(f func(summary) int64) func(summary) string {
		return func(s summary) string { return strconv.FormatInt(f(s), 10) }
	}
	return output.View[summary]{
		Name: count(func(s summary) int64 { return s.Created + s.Updated }),
		Columns: []output.Column[summary]{
			{Header: "LINES", Cell: count(func(s summary) int64 { return s.Lines })},
			{Header: "CREATED", Cell: count(func(s summary) int64 { return s.Created })},
			{Header: "UPDATED", Cell: count(func(s summary) int64 { return s.Updated })},
			{Header: "FAILED", Cell: count(func(s summary) int64 { return s.Failed })},
			{Header: "SECONDS", Cell: func(s summary) string { return fmt.Sprintf("%.1f", s.Seconds) }},
			{Header: "JOBS/S", Cell: func(s summary) string { return fmt.Sprintf("%.0f", s.PerSec) }},
		},
	}
}

// check reads the file without a server and prints the jobs that would be sent.
func (r *importRun) check(src importer.Source) error {
	w, good, bad := output.NewWriter(r.a.stdout, r.a.format, checkedView()), int64(0), int64(0)
	err := src(func(l importer.Line) error {
		j, problem := checkLine(l)
		if problem == "" {
			good++
			return w.Add(checked{Line: l.Number, Job: j, raw: l.Body})
		}
		bad++
		return r.failures.add(importer.Failure{Line: l.Number, JobID: j.JobID, Text: lineText(l), Error: &api.Problem{Title: "Refused", Code: api.CodeInvalid, Detail: problem}})
	})
	if err == nil {
		err = w.Close()
	}
	if closeErr := r.failures.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	r.a.note("%d lines are good as far as can be told without a server, %d are not; nothing was sent", good, bad)
	return partly(bad, good, r.failures.path)
}

func lineText(l importer.Line) string {
	if l.Text != "" {
		return l.Text
	}
	return string(l.Body)
}

// checkLine judges what needs no server: the JSON, the id and the schedule.
func checkLine(l importer.Line) (api.JobRequest, string) {
	var j api.JobRequest
	if l.Problem != "" {
		return j, l.Problem
	}
	if err := json.Unmarshal(l.Body, &j); err != nil {
		return j, "it is not the JSON of a job: " + err.Error()
	}
	if bad := job.CheckID(j.JobID); bad != nil {
		return j, bad.Error()
	}
	spec := job.Spec{Schedule: timingOf(j.JobID, j.JobSpec)}
	if _, bad := spec.Translate(); bad != nil {
		return j, bad.Error()
	}
	if _, err := job.Compile(spec.Schedule); err != nil {
		return j, err.Error()
	}
	return j, ""
}

// checked is a job that would be sent; its JSON is what would be sent.
type checked struct {
	Line int64
	Job  api.JobRequest
	raw  json.RawMessage
}

// MarshalJSON is the job as it would be sent.
func (c checked) MarshalJSON() ([]byte, error) { return c.raw, nil }

func checkedView() output.View[checked] {
	return output.View[checked]{
		Name: func(c checked) string { return c.Job.JobID },
		Columns: []output.Column[checked]{
			{Header: "LINE", Cell: func(c checked) string { return strconv.FormatInt(c.Line, 10) }},
			{Header: "JOB ID", Cell: func(c checked) string { return c.Job.JobID }},
			{Header: "SCHEDULE", Cell: func(c checked) string { return scheduleOf(c.Job.JobSpec) }},
			{Header: "TIME ZONE", Cell: func(c checked) string { return zoneOf(c.Job.JobSpec) }},
			{Header: "DESCRIPTION", Cell: func(c checked) string { return shorten(c.Job.Description) }},
		},
	}
}

// failureFile is made with its first line; a second import of a file adds to it.
type failureFile struct {
	path string
	more bool
	file *os.File
}

func (f *failureFile) add(failure importer.Failure) error {
	if f.file == nil {
		mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if f.more {
			mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		file, err := os.OpenFile(f.path, mode, 0o600)
		if err != nil {
			return fmt.Errorf("write refused lines: %w", err)
		}
		f.file = file
	}
	text, err := json.Marshal(failure)
	if err != nil {
		return fmt.Errorf("write refused lines: %w", err)
	}
	_, err = f.file.Write(append(text, '\n'))
	return err
}

func (f *failureFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
