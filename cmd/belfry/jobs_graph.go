package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func newJobsGraph(a *app) *cobra.Command {
	var mermaid bool
	cmd := &cobra.Command{
		Use:               "graph ID",
		Short:             "Show which jobs a job follows, and which follow it",
		Example:           "  belfry jobs graph load\n  belfry jobs graph load --mermaid",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if mermaid {
				text, err := c.Mermaid(ctx, args[0])
				fmt.Fprint(a.stdout, text)
				return err
			}
			g, err := c.Graph(ctx, args[0])
			if err != nil {
				return err
			}
			if a.format != output.Table {
				return output.One(a.stdout, a.format, graphView(), g)
			}
			if g.Value.Truncated {
				a.note("the graph is larger than what is shown")
			}
			printTree(a.stdout, g.Value)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "as a flow chart in the language Mermaid")
	return cmd
}

func graphView() output.View[client.Doc[api.Graph]] {
	return output.View[client.Doc[api.Graph]]{
		Name: func(g client.Doc[api.Graph]) string { return g.Value.JobID },
	}
}

// printTree prints each job under one that it follows; where it follows several,
// the second time without what comes after it.
func printTree(w io.Writer, g api.Graph) {
	jobs, next, follows := map[string]api.GraphJob{}, map[string][]string{}, map[string]bool{}
	for _, j := range g.Jobs {
		jobs[j.JobID] = j
	}
	for _, e := range g.Edges {
		next[e.Upstream] = append(next[e.Upstream], e.Dependent)
		follows[e.Dependent] = true
	}
	type step struct {
		id    string
		depth int
	}
	shown := map[string]bool{}
	for _, root := range g.Jobs {
		if follows[root.JobID] {
			continue
		}
		for stack := []step{{root.JobID, 0}}; len(stack) > 0; {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			fmt.Fprintf(w, "%s%s%s\n", strings.Repeat("  ", at.depth), output.Printable(at.id), treeNote(jobs[at.id], at.id == g.JobID, shown[at.id] && len(next[at.id]) > 0))
			if shown[at.id] {
				continue
			}
			shown[at.id] = true
			for i := len(next[at.id]) - 1; i >= 0; i-- {
				stack = append(stack, step{next[at.id][i], at.depth + 1})
			}
		}
	}
}

func treeNote(j api.GraphJob, self, above bool) string {
	var notes []string
	if above {
		notes = append(notes, "see above")
	}
	if j.Last != "" {
		notes = append(notes, "last: "+j.Last)
	}
	if j.Status != "" && j.Status != "active" {
		notes = append(notes, j.Status)
	}
	out := ""
	if len(notes) > 0 {
		out = "  (" + strings.Join(notes, ", ") + ")"
	}
	if self {
		out += "  ◀"
	}
	return out
}
