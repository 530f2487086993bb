package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/foreign"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
)

// cronJob is a CronJob of Kubernetes, or a list of them, as far as it is imported.
type cronJob struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name      string            `yaml:"name"`
		Namespace string            `yaml:"namespace"`
		Labels    map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Spec struct {
		Schedule                string         `yaml:"schedule"`
		TimeZone                string         `yaml:"timeZone"`
		Suspend                 bool           `yaml:"suspend"`
		ConcurrencyPolicy       string         `yaml:"concurrencyPolicy"`
		StartingDeadlineSeconds *int64         `yaml:"startingDeadlineSeconds"`
		JobTemplate             map[string]any `yaml:"jobTemplate"`
	} `yaml:"spec"`
	Items []cronJob `yaml:"items"`
}

func newImportCronJobs(a *app) *cobra.Command {
	var (
		f    importFlags
		m    mapping
		zone = "UTC"
	)
	cmd := &cobra.Command{
		Use:   "k8s-cronjob FILE",
		Short: "Import the CronJobs of Kubernetes, as kubectl prints them",
		Long: `Import the CronJobs of Kubernetes: YAML or JSON, one or many, lists too. A CronJob runs a container, which
Belfry does not: --target-url or --queue says who does it now, and gets its jobTemplate. With
--compare nothing is sent: every instant of so many days is printed at which Kubernetes
(robfig/cron) and Belfry do not fire alike.`,
		Example: `  kubectl get cronjobs -A -o yaml > cronjobs.yaml
  belfry import k8s-cronjob cronjobs.yaml --queue containers --compare 400
  belfry import k8s-cronjob cronjobs.yaml --queue containers`,
		Args: exactly("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.check(); err != nil {
				return err
			}
			options := strings.Join([]string{"k8s-cronjob", zone, m.url, m.queue}, " ")
			return a.importFile(cmd.Context(), args[0], f, options, func(r io.Reader) importer.Source { return cronJobSource(r, zone, m) })
		},
	}
	f.add(cmd)
	f.compare.add(cmd)
	m.add(cmd)
	cmd.Flags().Var(textFlag{&zone}, "time-zone", "zone of CronJobs without timeZone: that of the controller manager")
	return cmd
}

func cronJobSource(r io.Reader, zone string, m mapping) importer.Source {
	return func(yield func(importer.Line) error) error {
		dec, n := yaml.NewDecoder(r), int64(0)
		for {
			var j cronJob
			err := dec.Decode(&j)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("document after CronJob %d: %w", n, err)
			}
			all := j.Items
			if j.Kind == "CronJob" {
				all = []cronJob{j}
			}
			for _, j := range all {
				if j.Kind != "" && j.Kind != "CronJob" {
					continue // a list of several kinds
				}
				n++
				if err := yield(j.line(n, zone, m)); err != nil {
					return err
				}
			}
		}
	}
}

// line is the CronJob as a request, and when Kubernetes fires it.
func (j *cronJob) line(n int64, zone string, m mapping) importer.Line {
	id := strings.TrimPrefix(j.Metadata.Namespace+"."+j.Metadata.Name, ".")
	if j.Spec.TimeZone != "" {
		zone = j.Spec.TimeZone
	}
	named, expr := foreign.CutZone(j.Spec.Schedule)
	if named != "" {
		zone = named
	}
	target, err := m.target(map[string]any{"cronjob": j.Metadata.Name, "namespace": j.Metadata.Namespace, "job_template": j.Spec.JobTemplate})
	if err == nil && target == nil {
		err = fmt.Errorf("it runs a container: say with --target-url or --queue who runs it now")
	}
	fields := map[string]any{
		"job_id": id, "labels": j.Metadata.Labels, "schedule_expr": expr, "time_zone": zone, "paused": j.Spec.Suspend, "target": target,
	}
	switch j.Spec.ConcurrencyPolicy {
	case "", "Allow":
	case "Forbid":
		fields["overlap"] = "skip"
	case "Replace":
		fields["overlap"] = "replace"
	default:
		err = fmt.Errorf("its concurrencyPolicy %q is none of Allow, Forbid and Replace", j.Spec.ConcurrencyPolicy)
	}
	if s := j.Spec.StartingDeadlineSeconds; s != nil { // the newest start that was missed, if it is not older
		fields["catch_up"] = map[string]any{"policy": "all", "max": 1, "window": (time.Duration(max(*s, 1)) * time.Second).String()}
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	l := sourceLine(n, id, fields, problem)
	l.There = there(zone, func(loc *time.Location) (foreign.Fires, error) { return foreign.Robfig(expr, loc, false) })
	return l
}
