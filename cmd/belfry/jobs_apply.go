package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/manifest"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// applied is what became of one definition.
type applied struct {
	JobID    string `json:"job_id"`
	Result   string `json:"result"`
	Revision int64  `json:"revision,omitzero"`
}

func appliedView() output.View[applied] {
	return output.View[applied]{
		Name: func(r applied) string { return r.JobID },
		Columns: []output.Column[applied]{
			{Header: "JOB ID", Cell: func(r applied) string { return r.JobID }},
			{Header: "RESULT", Cell: func(r applied) string { return r.Result }},
			{Header: "REVISION", Cell: func(r applied) string { return fmt.Sprint(r.Revision) }},
		},
	}
}

func newJobsApply(a *app) *cobra.Command {
	var (
		file string
		dry  bool
	)
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the jobs of a file exist as it says",
		Long: `Make the jobs of a file exist as it says: each is created, or replaced whole. The file is YAML
(documents, or a list) or JSON, and may be what "jobs get -o yaml" printed.`,
		Example: "  belfry jobs apply -f jobs.yaml\n  belfry jobs get daily-report -o yaml | belfry jobs apply -f -",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usage("%s needs -f FILE, or -f - to read stdin", cmd.CommandPath())
			}
			text, err := readFile(file, a.stdin)
			if err != nil {
				return err
			}
			jobs, err := manifest.Read(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return a.apply(cmd, jobs, client.Change{ValidateOnly: dry})
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file to read; - is stdin")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check the definitions; store nothing")
	return cmd
}

// readFile reads a whole file, or stdin for "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	in, err := openFile(name, stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}

// apply puts one definition after another. One that is refused does not keep
// the others back.
func (a *app) apply(cmd *cobra.Command, jobs []manifest.Job, change client.Change) error {
	c, err := a.client("")
	if err != nil {
		return err
	}
	var t tally
	w := output.NewWriter(a.stdout, a.format, appliedView())
	graph := job.NewGraph() // of the file
	for _, j := range upstreamsFirst(jobs) {
		if bad := graph.Set(j.ID, j.DependsOn); bad != nil {
			t.add(a.stderr, j.ID, errors.New(bad.Error()))
			continue
		}
		res, err := c.Put(cmd.Context(), j.ID, j.Body, change)
		if err == nil {
			a.noteJob(res, change)
			err = w.Add(applied{JobID: j.ID, Result: resultOf(res, change), Revision: res.Value.Revision})
		}
		if t.add(a.stderr, j.ID, err); cmd.Context().Err() != nil {
			break
		}
	}
	if t.done > 0 {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return t.err()
}

// upstreamsFirst keeps the order of a file, but that each job comes after those
// of the file that it depends on. Who depend on each other stay as they are, and
// are refused.
func upstreamsFirst(jobs []manifest.Job) []manifest.Job {
	waits := map[string]bool{}
	for _, j := range jobs {
		waits[j.ID] = true
	}
	var out []manifest.Job
	for rest := jobs; len(rest) > 0; {
		var later []manifest.Job
		for _, j := range rest {
			if slices.ContainsFunc(j.DependsOn, func(u string) bool { return u != j.ID && waits[u] }) {
				later = append(later, j)
				continue
			}
			out = append(out, j)
			waits[j.ID] = false
		}
		if len(later) == len(rest) {
			return append(out, later...)
		}
		rest = later
	}
	return out
}

func resultOf(res client.Result, change client.Change) string {
	switch {
	case change.ValidateOnly:
		return "valid"
	case res.Created:
		return api.ImportCreated
	}
	return api.ImportUpdated
}
