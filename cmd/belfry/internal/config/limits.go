package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Limits are what calls to one host are held to.
type Limits struct {
	Hosts    job.HostLimits
	Failures int           // that open a circuit; 0: none does
	OpenFor  time.Duration // how long it stays open before it is tried
}

func limitSettings() []Setting {
	return []Setting{
		{Key: "host-rate", Default: "", Help: "calls a second to any one host, from all nodes together: 50, or 50/100 with a burst (default: any)", apply: func(s *Server, v string) (err error) {
			s.Limits.Hosts.Default.Rate, err = rate(v)
			return err
		}},
		{Key: "host-concurrency", Default: "0", Help: "calls at once to any one host, from all nodes together; 0 lets each node use half of its slots", apply: func(s *Server, v string) (err error) {
			if s.Limits.Hosts.Default.Concurrency, err = strconv.Atoi(v); err != nil || s.Limits.Hosts.Default.Concurrency < 0 || s.Limits.Hosts.Default.Concurrency > 1<<20 {
				return fmt.Errorf("%q is not a number from 0 to %d", v, 1<<20)
			}
			return nil
		}},
		{Key: "host-limits", Default: "", Help: "limits of single hosts instead of the two above: {api.example.com: {rate: 10, burst: 20, concurrency: 4}, \"db.internal:8080\": {concurrency: 2}}", apply: func(s *Server, v string) (err error) {
			s.Limits.Hosts.Hosts, err = hostLimits(v)
			return err
		}},
		{Key: "breaker-failures", Default: "10", Help: "calls to a host that must fail within 10s, and at least half of all, for its circuit to open; 0 turns circuit breakers off", apply: func(s *Server, v string) (err error) {
			if s.Limits.Failures, err = strconv.Atoi(v); err != nil || s.Limits.Failures < 0 || s.Limits.Failures > 1<<20 {
				return fmt.Errorf("%q is not a number from 0 to %d", v, 1<<20)
			}
			return nil
		}},
		{Key: "breaker-open", Default: "10s", Help: "how long an open circuit lets no call through before the host is tried", apply: func(s *Server, v string) (err error) {
			s.Limits.OpenFor, err = duration(v, time.Second)
			return err
		}},
	}
}

// rate reads RATE or RATE/BURST.
func rate(v string) (job.RateLimit, error) {
	if v == "" {
		return job.RateLimit{}, nil
	}
	perSecond, burst, given := strings.Cut(v, "/")
	r, err := strconv.ParseFloat(perSecond, 64)
	n := 0
	if err == nil && given {
		n, err = strconv.Atoi(burst)
	}
	if err != nil {
		return job.RateLimit{}, fmt.Errorf("%q is not a rate; write calls a second, such as 50, or 50/100 with a burst", v)
	}
	return checked(r, n, given)
}

// checked is a limit whose burst is a second's worth where none is given.
func checked(perSecond float64, burst int, given bool) (job.RateLimit, error) {
	r := job.RateLimit{PerSecond: perSecond, Burst: burst}
	if !given {
		r.Burst = max(int(min(perSecond, job.MaxBurst)), 1)
	}
	if why := r.Check(); why != "" {
		return job.RateLimit{}, errors.New(why)
	}
	return r, nil
}

// hostLimits reads a map from hosts to limits, as YAML or JSON.
func hostLimits(v string) (map[string]job.HostLimit, error) {
	const example = `{api.example.com: {rate: 10, burst: 20, concurrency: 4}}`
	type entry struct {
		Rate        *float64 `yaml:"rate"`
		Burst       *int     `yaml:"burst"`
		Concurrency int      `yaml:"concurrency"`
	}
	var entries map[string]entry
	in := yaml.NewDecoder(bytes.NewReader([]byte(v)))
	in.KnownFields(true)
	if err := in.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it cannot be read; write it like %s: %w", example, err)
	}
	var out map[string]job.HostLimit
	for host, e := range entries {
		l, name := job.HostLimit{Concurrency: e.Concurrency}, job.HostOf("https://"+host+"/")
		switch {
		case name == "" || name != host:
			return nil, fmt.Errorf("%q is not a host: write its name in lower case, with a port only where it is not the usual one", host)
		case e.Rate == nil && e.Burst != nil:
			return nil, fmt.Errorf("host %s: a burst needs a rate", host)
		case e.Rate == nil && e.Concurrency == 0:
			return nil, fmt.Errorf("host %s: give a rate, a concurrency, or both", host)
		case e.Concurrency < 0 || e.Concurrency > 1<<20:
			return nil, fmt.Errorf("host %s: concurrency is %d, and must be from 1 to %d", host, e.Concurrency, 1<<20)
		}
		if e.Rate != nil {
			burst := 0
			if e.Burst != nil {
				burst = *e.Burst
			}
			var err error
			if l.Rate, err = checked(*e.Rate, burst, e.Burst != nil); err != nil {
				return nil, fmt.Errorf("host %s: %w", host, err)
			}
		}
		if out == nil {
			out = map[string]job.HostLimit{}
		}
		out[host] = l
	}
	return out, nil
}
