package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/foreign"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
)

// dkronJob is what Dkron's API shows of a job, as far as it is imported.
type dkronJob struct {
	Name           string            `json:"name"`
	DisplayName    string            `json:"displayname"`
	Schedule       string            `json:"schedule"`
	TimeZone       string            `json:"timezone"`
	Disabled       bool              `json:"disabled"`
	Retries        int               `json:"retries"`
	Concurrency    string            `json:"concurrency"`
	ParentJob      string            `json:"parent_job"`
	Executor       string            `json:"executor"`
	ExecutorConfig map[string]string `json:"executor_config"`
	Metadata       map[string]string `json:"metadata"`
	ExpiresAt      *time.Time        `json:"expires_at"`
}

func newImportDkron(a *app) *cobra.Command {
	var (
		f    importFlags
		m    mapping
		zone = "UTC"
	)
	cmd := &cobra.Command{
		Use:   "dkron FILE",
		Short: "Import the jobs of Dkron, as its API lists them",
		Long: `Import the jobs of Dkron: the JSON array that GET /v1/jobs of Dkron answers. HTTP executors become HTTP
targets. What runs a command on a node of Dkron is refused, unless --target-url or --queue says who
runs it. With --compare nothing is sent: every instant of so many days is printed at which Dkron
(robfig/cron with seconds) and Belfry do not fire alike.`,
		Example: `  curl -s localhost:8080/v1/jobs > dkron.json
  belfry import dkron dkron.json --compare 400
  belfry import dkron dkron.json --target-url https://runner.example.com/run`,
		Args: exactly("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.check(); err != nil {
				return err
			}
			options := strings.Join([]string{"dkron", zone, m.url, m.queue}, " ")
			return a.importFile(cmd.Context(), args[0], f, options, func(r io.Reader) importer.Source { return dkronSource(r, zone, m) })
		},
	}
	f.add(cmd)
	f.compare.add(cmd)
	m.add(cmd)
	cmd.Flags().Var(textFlag{&zone}, "time-zone", "zone of jobs that name none: that of the machines of Dkron")
	return cmd
}

func dkronSource(r io.Reader, zone string, m mapping) importer.Source {
	return func(yield func(importer.Line) error) error {
		dec := json.NewDecoder(r)
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return fmt.Errorf("it is not the JSON array that GET /v1/jobs of Dkron answers")
		}
		for n := int64(1); dec.More(); n++ {
			var j dkronJob
			if err := dec.Decode(&j); err != nil {
				return fmt.Errorf("job %d: %w", n, err)
			}
			fields, due, err := j.fields(zone, m)
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			l := sourceLine(n, j.Name, fields, problem)
			l.There = due
			if err := yield(l); err != nil {
				return err
			}
		}
		return nil
	}
}

// fields is the job as a request, and when Dkron fires it.
func (j *dkronJob) fields(zone string, m mapping) (map[string]any, *importer.There, error) {
	out := map[string]any{"job_id": j.Name, "description": j.DisplayName, "labels": j.Metadata, "paused": j.Disabled}
	target, err := j.target(m)
	if err != nil {
		return nil, nil, err
	}
	out["target"] = target
	if j.Retries > 0 {
		out["retry"] = map[string]any{"max_attempts": j.Retries + 1}
	}
	if j.Concurrency == "forbid" {
		out["overlap"] = "skip"
	}
	if j.ExpiresAt != nil {
		out["ends_at"] = j.ExpiresAt
	}
	if j.ParentJob != "" {
		out["depends_on"] = []string{j.ParentJob}
		return out, nil, nil
	}
	due, err := j.schedule(out, zone)
	return out, due, err
}

// schedule translates when a job is due.
func (j *dkronJob) schedule(out map[string]any, zone string) (*importer.There, error) {
	if j.TimeZone != "" {
		zone = j.TimeZone
	}
	named, expr := foreign.CutZone(j.Schedule)
	if named != "" {
		zone = named
	}
	out["time_zone"] = zone
	word, rest, _ := strings.Cut(expr, " ")
	switch {
	case word == "@manually" || expr == "":
		return nil, fmt.Errorf("it has no schedule: it runs when it is triggered, and a job here needs a schedule or depends_on")
	case word == "@at":
		out["schedule_expr"] = strings.TrimSpace(rest)
		return nil, nil
	case word == "@minutely":
		expr = "0 * * * * *"
	}
	out["schedule_expr"], out["seconds"] = expr, expr[0] != '@'
	return there(zone, func(loc *time.Location) (foreign.Fires, error) { return foreign.Robfig(expr, loc, true) }), nil
}

// target is the HTTP call of a job, or its mapping.
func (j *dkronJob) target(m mapping) (any, error) {
	c := j.ExecutorConfig
	if j.Executor != "http" {
		target, err := m.target(map[string]any{"job": j.Name, "executor": j.Executor, "config": c})
		if err == nil && target == nil {
			err = fmt.Errorf("its executor %q runs on the nodes of Dkron: say with --target-url or --queue who runs it now", j.Executor)
		}
		return target, err
	}
	for _, name := range []string{"expectBody", "tlsCertificateFile", "tlsCertificateKeyFile", "tlsRootCAsFile"} {
		if c[name] != "" {
			return nil, fmt.Errorf("its executor has %s, which cannot be said here: an answer of 2xx is success, and certificates are those of the system", name)
		}
	}
	if code := c["expectCode"]; code != "" && !strings.HasPrefix(code, "2") {
		return nil, fmt.Errorf("its executor expects the status %s, and here an answer of 2xx is success", code)
	}
	if c["tlsNoVerifyPeer"] == "true" {
		return nil, fmt.Errorf("its executor does not check certificates, and here they are checked")
	}
	http := map[string]any{"url": c["url"], "method": strings.ToUpper(c["method"])}
	if c["method"] == "" {
		http["method"] = "GET"
	}
	if c["body"] != "" {
		http["body"] = c["body"]
	}
	headers, err := dkronHeaders(c["headers"])
	if len(headers) > 0 {
		http["headers"] = headers
	}
	return map[string]any{"http": http}, err
}

// dkronHeaders reads headers as Dkron has them: a JSON array of "Name: value".
func dkronHeaders(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	var lines []string
	if err := json.Unmarshal([]byte(text), &lines); err != nil {
		return nil, fmt.Errorf("its headers are not a JSON array of texts: %s", strconv.Quote(shorten(text)))
	}
	out := map[string]string{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("its header %s has no colon", strconv.Quote(shorten(line)))
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out, nil
}
