package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/manifest"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newExport(a *app) *cobra.Command {
	var (
		f   listFlags
		all bool
	)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the definitions of all jobs, one JSON object a line, as `belfry import jsonl` takes them",
		Long: `Write the definitions of all jobs, one JSON object a line, as "belfry import jsonl" takes them.
Finished jobs are left out unless --state or --finished asks for them: a job whose only instant is past cannot
be registered anew. Jobs that depend on others come last, each after those. Secrets in headers and URLs are shown as ***; they have to be put in again.`,
		Example: "  belfry export --label team=billing > billing.jsonl",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.filter.NextRunBefore = f.before.Time
			return a.export(cmd, f, all || f.filter.State != "")
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "finished", false, "finished jobs too")
	return cmd
}

func (a *app) export(cmd *cobra.Command, f listFlags, finished bool) error {
	c, err := a.client("")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.stdout)
	var written, left, hidden int
	var later []manifest.Job // those that depend on others
	for j, err := range c.Jobs(cmd.Context(), f.filter, maxPage) {
		if err != nil {
			return err
		}
		if j.Value.Status == string(job.Finished) && !finished {
			left++
			continue
		}
		def, err := manifest.Request(jsontext.Value(j.Raw))
		if err != nil {
			return fmt.Errorf("job %s: %w", j.Value.JobID, err)
		}
		if bytes.Contains(def.Body, []byte(masked)) {
			hidden++
		}
		written++
		if len(def.DependsOn) > 0 {
			later = append(later, def)
		} else if _, err := fmt.Fprintln(out, string(def.Body)); err != nil {
			return err
		}
	}
	for _, def := range upstreamsFirst(later) {
		if _, err := fmt.Fprintln(out, string(def.Body)); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	a.note("%s", exported(written, left, hidden))
	return nil
}

// masked is what the server shows instead of a secret.
const masked = "***"

func exported(written, left, hidden int) string {
	parts := []string{fmt.Sprintf("%d jobs exported", written)}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("%d finished ones left out (--finished exports them)", left))
	}
	if hidden > 0 {
		parts = append(parts, fmt.Sprintf("%d with secrets that are shown as %s and have to be put in again", hidden, masked))
	}
	return strings.Join(parts, "; ")
}
