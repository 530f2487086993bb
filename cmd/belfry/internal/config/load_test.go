package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/config"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// sources makes the layers of a test: a file with the given text, an
// environment and flags.
func sources(t *testing.T, yaml string, environ []string, args ...string) config.Sources {
	t.Helper()
	src := config.Sources{Environ: func() []string { return environ }, Flags: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	config.AddFlags(src.Flags)
	if err := src.Flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if yaml != "" {
		src.File = filepath.Join(t.TempDir(), "belfry.yaml")
		if err := os.WriteFile(src.File, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

func origin(values []config.Value, key string) string {
	for _, v := range values {
		if v.Key == key {
			return v.Origin
		}
	}
	return "absent"
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const yaml = "slots: 7\ndrain-timeout: 11s\nnode-name: from-file\n"
	env := []string{"BELFRY_SLOTS=8", "BELFRY_DRAIN_TIMEOUT=12s", "OTHER_SLOTS=9", "BELFRY_NODE_NAME="}
	src := sources(t, yaml, env, "--slots=9")

	server, values, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if server.Slots != 9 || server.DrainTimeout != 12*time.Second || server.NodeName != "from-file" || server.Partitions != 256 {
		t.Errorf("settings = %+v", server)
	}
	for key, want := range map[string]string{
		"slots":         "flag --slots",
		"drain-timeout": "env BELFRY_DRAIN_TIMEOUT",
		"node-name":     "file " + src.File,
		"partitions":    "default",
	} {
		if got := origin(values, key); got != want {
			t.Errorf("origin of %s = %q, want %q", key, got, want)
		}
	}
}

func TestAFlagSetToItsDefaultStillWins(t *testing.T) {
	t.Parallel()
	server, values, err := config.Load(sources(t, "slots: 7\n", nil, "--slots=0"))
	if err != nil || server.Slots != 0 || origin(values, "slots") != "flag --slots" {
		t.Errorf("slots = %d from %s, %v", server.Slots, origin(values, "slots"), err)
	}
}

func TestListsInTheFile(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{"allow-targets: [10.0.0.0/8, 127.0.0.0/8]\n", "allow-targets: 10.0.0.0/8, 127.0.0.0/8\n"} {
		server, _, err := config.Load(sources(t, yaml, nil))
		if err != nil || len(server.AllowTargets) != 2 {
			t.Errorf("%s: %v, %v", yaml, server.AllowTargets, err)
		}
	}
}

func TestLimitsOfHosts(t *testing.T) {
	t.Parallel()
	want := map[string]job.HostLimit{
		"api.example.com": {Rate: job.RateLimit{PerSecond: 10, Burst: 20}, Concurrency: 4},
		"slow":            {Rate: job.RateLimit{PerSecond: 0.5, Burst: 1}},
		"db:8080":         {Concurrency: 2},
	}
	const flow = `{api.example.com: {rate: 10, burst: 20, concurrency: 4}, slow: {rate: 0.5}, "db:8080": {concurrency: 2}}`
	for name, src := range map[string]config.Sources{
		"file": sources(t, "host-limits:\n  api.example.com: {rate: 10, burst: 20, concurrency: 4}\n  slow:\n    rate: 0.5\n  db:8080: {concurrency: 2}\n", nil),
		"flag": sources(t, "", nil, "--host-limits="+flow),
		"env":  sources(t, "", []string{"BELFRY_HOST_LIMITS=" + flow}),
	} {
		server, _, err := config.Load(src)
		if err != nil || !maps.Equal(server.Limits.Hosts.Hosts, want) {
			t.Errorf("%s: %+v, %v", name, server.Limits.Hosts.Hosts, err)
		}
	}
	server, _, err := config.Load(sources(t, "", nil, "--host-rate=50", "--host-concurrency=7"))
	if def := (job.HostLimit{Rate: job.RateLimit{PerSecond: 50, Burst: 50}, Concurrency: 7}); err != nil || server.Limits.Hosts.Default != def {
		t.Errorf("%+v, %v", server.Limits, err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		yaml string
		env  []string
		args []string
		want []string // parts of the message
	}{
		"unknown key":       {yaml: "slotz: 7\n", want: []string{`unknown key "slotz"`, "belfry.yaml"}},
		"nested key":        {yaml: "server:\n  slots: 7\n", want: []string{`unknown key "server"`}},
		"not yaml":          {yaml: "slots: [\n", want: []string{"read configuration", "belfry.yaml"}},
		"other store":       {args: []string{"--store=etcd"}, want: []string{"store (flag --store)", "neither embedded nor cql"}},
		"cql, but where":    {args: []string{"--store=cql"}, want: []string{"cql-hosts"}},
		"cql, which centre": {args: []string{"--store=cql", "--cql-hosts=db1"}, want: []string{"cql-local-dc"}},
		"copies":            {args: []string{"--cql-replication=3"}, want: []string{"dc1=3"}},
		"hosts for nobody":  {args: []string{"--cql-hosts=db1"}, want: []string{"--store cql only"}},
		"partitions":        {env: []string{"BELFRY_PARTITIONS=100"}, want: []string{"partitions (env BELFRY_PARTITIONS)", "power of two"}},
		"a number, not yes": {yaml: "slots: true\n", want: []string{"slots (file", `"true"`}},
		"cidr":              {args: []string{"--allow-targets=10.0.0.1"}, want: []string{"allow-targets", "10.1.2.3/32"}},
		"host bits":         {args: []string{"--allow-targets=10.0.0.1/8"}, want: []string{"write 10.0.0.0/8"}},
		"duration":          {args: []string{"--retention=30d"}, want: []string{"retention", "720h"}},
		"short retention":   {args: []string{"--retention=-1h"}, want: []string{"smallest allowed"}},
		"two at once":       {args: []string{"--log-level=loud", "--log-format=xml"}, want: []string{"log-level", "log-format"}},
		"a rate":            {args: []string{"--host-rate=many"}, want: []string{"host-rate", "50/100"}},
		"no rate at all":    {args: []string{"--host-rate=0"}, want: []string{"host-rate", "the rate is 0"}},
		"burst":             {args: []string{"--host-rate=5/0"}, want: []string{"host-rate", "the burst is 0"}},
		"limits of a host":  {yaml: "host-limits: 7\n", want: []string{"host-limits", "write it like"}},
		"unknown limit":     {yaml: "host-limits: {a: {speed: 1}}\n", want: []string{"host-limits", "speed"}},
		"empty limit":       {yaml: "host-limits: {a: {}}\n", want: []string{"host a", "give a rate"}},
		"only a burst":      {yaml: "host-limits: {a: {burst: 2}}\n", want: []string{"host a", "needs a rate"}},
		"no host":           {yaml: "host-limits: {\"https://a/\": {rate: 2}}\n", want: []string{"is not a host"}},
		"negative":          {yaml: "host-limits: {a: {concurrency: -1}}\n", want: []string{"host a", "concurrency"}},
		"breaker":           {args: []string{"--breaker-failures=-1", "--breaker-open=10ms"}, want: []string{"breaker-failures", "breaker-open"}},
		"bool":              {env: []string{"BELFRY_INSECURE_NO_AUTH=maybe"}, want: []string{"neither true nor false"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := config.Load(sources(t, c.yaml, c.env, c.args...))
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestAMissingFileIsAnError(t *testing.T) {
	t.Parallel()
	src := sources(t, "", nil)
	src.File = filepath.Join(t.TempDir(), "absent.yaml")
	if _, _, err := config.Load(src); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error = %v", err)
	}
}
