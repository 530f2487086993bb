package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

// jobFlags are the fields of a job as flags. Only the flags that are given
// become fields: the rest is the server's default, or stays as it is.
type jobFlags struct {
	rateLimit, onOpenCircuit        string
	schedules                       []string
	url, method, body, json         string
	actor, queue, signingSecretRef  string
	description, retry, catchUp     string
	headers, labels, dependsOn      []string
	timeout                         time.Duration
	timing                          timingFlags
	maxOutstanding, overlapQueue    int
	overlap                         string
	nats, kafka, broker, messageKey string
}

func (f *jobFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.schedules, "schedule", nil, "cron expression, @daily, \"@every 10m\", or one RFC 3339 instant; given more than once, what any of them says")
	f.timing.add(flags)
	flags.StringVar(&f.url, "url", "", "URL that is called when the job is due")
	flags.StringVar(&f.method, "method", "", "HTTP method (default POST)")
	flags.StringVar(&f.signingSecretRef, "signing-secret-ref", "", "where the server reads the keys that it signs calls with: env://BELFRY_SECRET_NAME or file:///path")
	flags.StringVar(&f.actor, "actor", "", "actor that is asked when the job is due, in place of --url: KIND/IDENTITY; its payload is --body or --json")
	flags.StringVar(&f.queue, "queue", "", "queue that workers claim it from when the job is due, in place of --url; its payload is --body or --json")
	flags.StringVar(&f.nats, "nats", "", "NATS subject that is published to when the job is due, in place of --url")
	flags.StringVar(&f.kafka, "kafka", "", "Kafka topic that is published to when the job is due, in place of --url")
	flags.StringVar(&f.broker, "broker", "default", "broker of --nats or --kafka, as the server's operator named it")
	flags.StringVar(&f.messageKey, "message-key", "", "key of the Kafka record (default: the job's id)")
	flags.StringVar(&f.body, "body", "", "body of the call; @FILE reads a file, @- stdin")
	flags.StringVar(&f.json, "json", "", "JSON body of the call, sent as application/json; @FILE reads a file")
	flags.StringArrayVar(&f.headers, "header", nil, "header of the call, as name=value; may be given more than once; name- removes it")
	flags.StringArrayVarP(&f.labels, "label", "l", nil, "label, as key=value; may be given more than once; key- removes it")
	flags.StringVar(&f.description, "description", "", "text for people")
	flags.DurationVar(&f.timeout, "timeout", 0, "limit of one attempt (default 30s, for queues 1h)")
	flags.StringVar(&f.retry, "retry", "", "attempts, or max_attempts=5,initial_backoff=1s,multiplier=2,max_backoff=10m,jitter=0.2,max_elapsed=24h")
	flags.StringVar(&f.catchUp, "catch-up", "", "latest, all or none, or policy=all,max=100,window=24h,grace=30s")
	flags.StringVar(&f.rateLimit, "rate-limit", "", "attempts a second, or per_second=10,burst=20 (default: any)")
	flags.StringVar(&f.onOpenCircuit, "on-open-circuit", "", "what an execution does whose host's circuit is open: wait, or fail its attempt (default wait)")
	flags.StringSliceVar(&f.dependsOn, "depends-on", nil, "jobs whose success triggers this one, in place of --schedule: A,B")
	flags.IntVar(&f.maxOutstanding, "max-outstanding", 0, "unfinished executions that the job may have at once (default 100)")
	flags.StringVar(&f.overlap, "overlap", "", "what becomes of an execution that is due while another has not ended: allow, skip, queue or replace (default allow)")
	flags.IntVar(&f.overlapQueue, "overlap-queue", 0, "executions that may wait (default 10)")
}

// fields is the JSON of the flags that were given.
func (f *jobFlags) fields(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	out := map[string]any{}
	for name, value := range map[string]any{
		"description": f.description, "time-zone": f.timing.zone, "seconds": f.timing.seconds,
		"starts-at": f.timing.startsAt.orNull(), "ends-at": f.timing.endsAt.orNull(), "timeout": f.timeout.String(), "max-outstanding": f.maxOutstanding, "depends-on": f.dependsOn,
		"exclude": f.timing.exclude, "jitter": f.timing.jitter.String(), "max-runs": f.timing.maxRuns,
		"on-open-circuit": f.onOpenCircuit,
		"overlap":         f.overlap, "overlap-queue": f.overlapQueue,
	} {
		if flags.Changed(name) {
			out[fieldOf(name)] = value
		}
	}
	switch len(f.schedules) {
	case 0:
	case 1:
		out["schedule_expr"], out["schedule_exprs"] = f.schedules[0], nil
	default:
		out["schedule_expr"], out["schedule_exprs"] = nil, f.schedules
	}
	dst := map[string]any{}
	setIf(flags, dst, "dst-gap", "gap", f.timing.gap)
	setIf(flags, dst, "dst-fold", "fold", f.timing.fold)
	setAny(out, "dst", dst)
	labels, err := pairsOf("label", f.labels)
	if err != nil {
		return nil, err
	}
	setAny(out, "labels", labels)
	target, err := f.target(flags, stdin)
	if err != nil {
		return nil, err
	}
	setAny(out, "target", target)
	return out, f.policies(flags, out)
}

func fieldOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

func setIf(flags *pflag.FlagSet, out map[string]any, flag, field string, value any) {
	if flags.Changed(flag) {
		out[field] = value
	}
}

func setAny(out map[string]any, field string, value map[string]any) {
	if len(value) > 0 {
		out[field] = value
	}
}

// targets are the kinds of targets, each with the flag that chooses it.
var targets = []struct {
	kind, flag string
	fields     func(f *jobFlags, flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error)
}{
	{"http", "url", (*jobFlags).http},
	{"actor", "actor", (*jobFlags).actorTarget},
	{"queue", "queue", (*jobFlags).queueTarget},
	{"nats", "nats", (*jobFlags).natsTarget},
	{"kafka", "kafka", (*jobFlags).kafkaTarget},
}

// target is where executions go. A patch that names another kind of target
// removes the one before.
func (f *jobFlags) target(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	chosen, out := targets[0], map[string]any{}
	for _, t := range targets {
		if !flags.Changed(t.flag) {
			continue
		}
		if len(out) > 0 {
			return nil, usage("--%s and --%s exclude each other", chosen.flag, t.flag)
		}
		chosen = t
		for _, other := range targets {
			out[other.kind] = nil
		}
	}
	if err := f.misplaced(flags, chosen.kind); err != nil {
		return nil, err
	}
	fields, err := chosen.fields(f, flags, stdin)
	if err != nil {
		return nil, err
	}
	delete(out, chosen.kind)
	setAny(out, chosen.kind, fields)
	return out, nil
}

// misplaced names the first flag that belongs to another kind of target.
func (f *jobFlags) misplaced(flags *pflag.FlagSet, kind string) error {
	for flag, kinds := range map[string]string{"method": "http", "signing-secret-ref": "http", "header": "http nats kafka", "broker": "nats kafka", "message-key": "kafka"} {
		if flags.Changed(flag) && !slices.Contains(strings.Fields(kinds), kind) {
			return usage("--%s is not for a target of kind %s", flag, kind)
		}
	}
	return nil
}

func (f *jobFlags) actorTarget(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	kind, identity, ok := strings.Cut(f.actor, "/")
	if !ok {
		return nil, usage("--actor %q: write it as KIND/IDENTITY", f.actor)
	}
	return f.withPayload(flags, stdin, map[string]any{"kind": kind, "identity": identity})
}

func (f *jobFlags) queueTarget(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	return f.withPayload(flags, stdin, map[string]any{"name": f.queue})
}

func (f *jobFlags) natsTarget(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	return f.message(flags, stdin, map[string]any{"subject": f.nats})
}

func (f *jobFlags) kafkaTarget(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	out := map[string]any{"topic": f.kafka}
	setIf(flags, out, "message-key", "key", f.messageKey)
	return f.message(flags, stdin, out)
}

// message adds what both kinds of brokers have.
func (f *jobFlags) message(flags *pflag.FlagSet, stdin io.Reader, out map[string]any) (map[string]any, error) {
	out["broker"] = f.broker
	headers, err := pairsOf("header", f.headers)
	if err != nil {
		return nil, err
	}
	setAny(out, "headers", headers)
	return f.withPayload(flags, stdin, out)
}

// withPayload adds --body or --json as the payload.
func (f *jobFlags) withPayload(flags *pflag.FlagSet, stdin io.Reader, out map[string]any) (map[string]any, error) {
	payload, err := f.payload(flags, stdin)
	if err != nil {
		return nil, err
	}
	for _, form := range []string{"body", "json"} {
		setIf(flags, out, form, "payload", payload[form])
	}
	return out, nil
}

func (f *jobFlags) http(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	out, err := f.payload(flags, stdin)
	if err != nil {
		return nil, err
	}
	setIf(flags, out, "url", "url", f.url)
	setIf(flags, out, "method", "method", f.method)
	setIf(flags, out, "signing-secret-ref", "signing_secret_ref", f.signingSecretRef)
	headers, err := pairsOf("header", f.headers)
	if err != nil {
		return nil, err
	}
	setAny(out, "headers", headers)
	return out, nil
}

// payload is what is sent, under the name of its form; a patch clears the other.
func (f *jobFlags) payload(flags *pflag.FlagSet, stdin io.Reader) (map[string]any, error) {
	out := map[string]any{}
	switch {
	case flags.Changed("body") && flags.Changed("json"):
		return nil, usage("--body and --json exclude each other")
	case flags.Changed("body"):
		text, err := valueOrFile("body", f.body, stdin)
		if err != nil {
			return nil, err
		}
		out["body"], out["json"] = text, nil
	case flags.Changed("json"):
		text, err := valueOrFile("json", f.json, stdin)
		if err != nil {
			return nil, err
		}
		if !json.Valid([]byte(text)) {
			return nil, usage("--json: %s is not JSON", strconv.Quote(shorten(text)))
		}
		out["json"], out["body"] = json.RawMessage(text), nil
	}
	return out, nil
}

func (f *jobFlags) policies(flags *pflag.FlagSet, out map[string]any) error {
	if flags.Changed("retry") {
		retry, err := policy("retry", f.retry, "max_attempts", []string{"max_attempts", "multiplier", "jitter"}, []string{"initial_backoff", "max_backoff", "max_elapsed"})
		if err != nil {
			return err
		}
		out["retry"] = retry
	}
	if flags.Changed("rate-limit") {
		limit, err := policy("rate-limit", f.rateLimit, "per_second", []string{"per_second", "burst"}, nil)
		if err != nil {
			return err
		}
		out["rate_limit"] = limit
	}
	if flags.Changed("catch-up") {
		catchUp, err := policy("catch-up", f.catchUp, "policy", []string{"max"}, []string{"policy", "window", "grace"})
		if err != nil {
			return err
		}
		out["catch_up"] = catchUp
	}
	return nil
}

// policy reads "value" or "name=value,…" into fields, some of them numbers and
// some text. A value without a name is that of main.
func policy(flag, text, main string, numbers, texts []string) (map[string]any, error) {
	out := map[string]any{}
	for _, part := range strings.Split(text, ",") {
		name, value, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, value = main, name
		}
		name = strings.ReplaceAll(name, "-", "_")
		number := oneOf(name, numbers)
		if !number && !oneOf(name, texts) {
			return nil, usage("--%s: %q is none of %s", flag, name, strings.Join(append(numbers, texts...), ", "))
		}
		if _, err := strconv.ParseFloat(value, 64); number && err != nil {
			return nil, usage("--%s: %s=%q is not a number", flag, name, value)
		}
		if number {
			out[name] = json.Number(value)
		} else {
			out[name] = value
		}
	}
	return out, nil
}

func oneOf(name string, names []string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// pairsOf reads "key=value" and "key-", which stands for a removal.
func pairsOf(flag string, entries []string) (map[string]any, error) {
	out := map[string]any{}
	for _, e := range entries {
		key, value, ok := strings.Cut(e, "=")
		switch {
		case ok && key != "":
			out[key] = value
		case !ok && strings.HasSuffix(e, "-") && len(e) > 1:
			out[strings.TrimSuffix(e, "-")] = nil
		default:
			return nil, usage("--%s %q: write it as key=value, or as key- to remove it", flag, e)
		}
	}
	return out, nil
}

// valueOrFile is the text itself, or for @name what the file holds.
func valueOrFile(flag, v string, stdin io.Reader) (string, error) {
	name, ok := strings.CutPrefix(v, "@")
	if !ok {
		return v, nil
	}
	text, err := readFile(name, stdin)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return string(text), nil
}

func newJobsCreate(a *app) *cobra.Command {
	var (
		f           jobFlags
		paused, dry bool
		key         string
		runPast     bool
	)
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Register a job",
		Example: `  belfry jobs create daily-report --schedule '0 6 * * 1-5' --time-zone Europe/Berlin --url https://example.com/report
  belfry jobs create load --depends-on extract,clean --url https://example.com/load
  belfry jobs create once --schedule 2026-12-31T23:59:00Z --url https://example.com/hook --body @body.json --retry 3
  belfry jobs create backup --schedule @daily --queue backups --timeout 3h`,
		Args: exactly("an id for the job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.schedules) == 0 && len(f.dependsOn) == 0 || f.url+f.actor+f.queue+f.nats+f.kafka == "" {
				return usage("%s needs --schedule or --depends-on, and --url, --queue, --actor, --nats or --kafka", cmd.CommandPath())
			}
			fields, err := f.fields(cmd.Flags(), a.stdin)
			if err != nil {
				return err
			}
			fields["job_id"] = args[0]
			setIf(cmd.Flags(), fields, "paused", "paused", paused)
			if runPast {
				fields["past"] = "run_now"
			}
			dropNulls(fields)
			return a.createJob(cmd, fields, key, client.Change{ValidateOnly: dry})
		},
	}
	flags := cmd.Flags()
	f.add(flags)
	flags.BoolVar(&paused, "paused", false, "register it paused")
	flags.BoolVar(&runPast, "run-past", false, "a one-time job whose instant is past runs at once instead of being refused")
	flags.BoolVar(&dry, "dry-run", false, "check it and show its next runs; store nothing")
	flags.StringVar(&key, "idempotency-key", "", "a creation repeated under the same key is made once (default a random key)")
	return cmd
}

// dropNulls removes what only a patch can say.
func dropNulls(fields map[string]any) {
	for name, value := range fields {
		if value == nil {
			delete(fields, name)
		}
		if inner, ok := value.(map[string]any); ok {
			dropNulls(inner)
		}
	}
}

func (a *app) createJob(cmd *cobra.Command, fields map[string]any, key string, change client.Change) error {
	c, err := a.client(key)
	if err != nil {
		return err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	res, err := c.Create(cmd.Context(), body, change)
	if err != nil {
		return err
	}
	a.noteJob(res, change)
	return output.One(a.stdout, a.format, jobView(), res.Doc)
}

func newJobsUpdate(a *app) *cobra.Command {
	var (
		f       jobFlags
		ifMatch string
		dry     bool
	)
	cmd := &cobra.Command{
		Use:               "update ID",
		Short:             "Change what the flags name and leave the rest",
		Example:           "  belfry jobs update daily-report --schedule '0 7 * * 1-5' --label team=billing --label old-",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			fields, err := f.fields(cmd.Flags(), a.stdin)
			if err != nil {
				return err
			}
			if len(fields) == 0 {
				return usage("%s changes nothing: name what to change with flags", cmd.CommandPath())
			}
			patch, err := json.Marshal(fields)
			if err != nil {
				return fmt.Errorf("encode change: %w", err)
			}
			c, err := a.client("")
			if err != nil {
				return err
			}
			change := client.Change{IfMatch: etag(ifMatch), ValidateOnly: dry}
			res, err := c.Patch(cmd.Context(), args[0], patch, change)
			if err != nil {
				return err
			}
			a.noteJob(res, change)
			return output.One(a.stdout, a.format, jobView(), res.Doc)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&ifMatch, "if-revision", "", "change it only if it still has this revision")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check it and show its next runs; store nothing")
	return cmd
}

// etag is a revision in the form of the header.
func etag(revision string) string {
	if revision == "" {
		return ""
	}
	return strconv.Quote(revision)
}

// noteJob says what was done, and when the job runs, so that a mistake in a
// schedule is seen at once.
func (a *app) noteJob(res client.Result, change client.Change) {
	j := res.Value
	what := "updated"
	switch {
	case change.ValidateOnly:
		what = "valid, not stored:"
	case res.Created:
		what = "created"
	}
	a.note("%s %s", what, output.Printable(j.JobID))
	for _, w := range j.Warnings {
		a.note("warning: %s", output.Printable(w))
	}
	for i, at := range j.NextRuns[:min(3, len(j.NextRuns))] {
		local := ""
		if i < len(j.NextRunsLocal) && zoneOf(j.JobSpec) != "UTC" {
			local = " (" + weekday(j.NextRunsLocal[i]) + ")"
		}
		a.note("  runs at %s%s", instant(&at), local)
	}
}
