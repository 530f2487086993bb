package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/crontab"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/foreign"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// crontabFlags say what the lines of a crontab become.
type crontabFlags struct {
	url, zone, prefix string
	labels            []string
}

func newImportCrontab(a *app) *cobra.Command {
	var (
		f importFlags
		t crontabFlags
	)
	cmd := &cobra.Command{
		Use:   "crontab FILE",
		Short: "Import a user's crontab: every line becomes a job that posts its command to a URL",
		Long: `Import a user's crontab: every line becomes a job that posts {"command": …, "stdin": …, "env": {…}}
to --url, where a runner of yours executes it. CRON_TZ and TZ lines set the zone of the lines below;
lines above the first are in --time-zone. A line's job id is made from what the line says, so that
importing a file again changes nothing. Lines with @reboot are refused.
With --compare nothing is sent: every instant of so many days is printed at which cron and Belfry
do not run a line alike.`,
		Example: "  crontab -l | belfry import crontab - --url https://runner.example.com/run --time-zone Europe/Berlin --dry-run\n  belfry import crontab cron.txt --compare 400",
		Args:    exactly("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.url == "" && f.compare.days == 0 {
				return usage("%s needs --url: where the commands are sent to", cmd.CommandPath())
			}
			labels, err := pairsOf("label", t.labels)
			if err != nil {
				return err
			}
			if t.zone == "" {
				a.note("lines without CRON_TZ are read as UTC; --time-zone names another zone")
			}
			options := strings.Join(append([]string{"crontab", t.url, t.zone, t.prefix}, t.labels...), " ")
			return a.importFile(cmd.Context(), args[0], f, options, func(r io.Reader) importer.Source { return t.source(r, labels) })
		},
	}
	f.add(cmd)
	f.compare.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&t.url, "url", "", "URL that receives the commands")
	flags.Var(textFlag{&t.zone}, "time-zone", "zone of lines above the first CRON_TZ (default UTC)")
	flags.StringVar(&t.prefix, "id-prefix", "cron-", "what the ids of the jobs begin with")
	flags.StringArrayVarP(&t.labels, "label", "l", nil, "label for all jobs, as key=value")
	return cmd
}

// source turns lines of a crontab into jobs.
func (t crontabFlags) source(r io.Reader, labels map[string]any) importer.Source {
	return func(yield func(importer.Line) error) error {
		same := map[string]int{}
		return crontab.Parse(r,
			func(e crontab.Entry) error {
				l := importer.Line{Number: int64(e.Line), Text: e.Schedule + " " + e.Command}
				if e.Zone == "" {
					e.Zone = t.zone
				}
				body, err := t.job(e, labels, same)
				if err != nil {
					l.Problem = err.Error()
				}
				l.Body, l.There = body, there(e.Zone, func(zone *time.Location) (foreign.Fires, error) { return foreign.Vixie(e.Schedule, zone) })
				return yield(l)
			},
			func(p *crontab.Problem) error {
				return yield(importer.Line{Number: int64(p.Line), Text: p.Text, Problem: p.Message})
			})
	}
}

// job is the request of an entry. The schedule is judged here, so that the
// report can speak of the line.
func (t crontabFlags) job(e crontab.Entry, labels map[string]any, same map[string]int) ([]byte, error) {
	if _, err := job.Compile(job.Timing{Expr: e.Schedule, Zone: e.Zone}); err != nil {
		return nil, err
	}
	payload := map[string]any{"command": e.Command}
	if e.Stdin != "" {
		payload["stdin"] = e.Stdin
	}
	if len(e.Env) > 0 {
		payload["env"] = e.Env
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	req := api.JobRequest{JobID: t.id(e, body, same)}
	req.ScheduleExpr, req.Description = e.Schedule, clip(e.Command)
	if e.Zone != "" {
		req.TimeZone = &e.Zone
	}
	req.Labels = map[string]string{}
	for k, v := range labels {
		if text, ok := v.(string); ok {
			req.Labels[k] = text
		}
	}
	req.Target = &api.Target{HTTP: &api.HTTPTarget{URL: t.url, JSON: body}}
	return json.Marshal(req)
}

// id is made from what the line says: its first words for people, a hash of
// all of it for uniqueness, a number when the file has the line twice.
func (t crontabFlags) id(e crontab.Entry, body []byte, same map[string]int) string {
	sum := sha256.Sum256(append([]byte(e.Zone+"\n"+e.Schedule+"\n"), body...))
	id := t.prefix + slug(e.Command) + "-" + hex.EncodeToString(sum[:5])
	if same[id]++; same[id] > 1 {
		id += fmt.Sprintf("-%d", same[id])
	}
	return id
}

// slug is the beginning of a command in the letters of an id.
func slug(command string) string {
	const most = 40
	name := command
	if first, _, ok := strings.Cut(command, " "); ok {
		name = first[strings.LastIndexByte(first, '/')+1:] + command[len(first):]
	} else {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	s := strings.Join(words, "-")
	if len(s) > most {
		s = strings.TrimRight(s[:most], "-")
	}
	if s == "" {
		return "job"
	}
	return s
}

// clip keeps a description short.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
