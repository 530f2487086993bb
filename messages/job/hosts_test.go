package job_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/messages/job"
)

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://api.example.com/hook?q=1":   "api.example.com",
		"https://API.Example.com:443":        "api.example.com",
		"http://api.example.com:80/x":        "api.example.com",
		"http://api.example.com:443/x":       "api.example.com:443",
		"https://api.example.com.:8443#frag": "api.example.com.:8443",
		"https://api.example.com./":          "api.example.com",
		"https://user:p%40w@host/":           "host",
		"http://[::1]:8080/":                 "[::1]:8080",
		"http://[::1]":                       "[::1]",
		"no url":                             "",
	} {
		if got := job.HostOf(url); got != want {
			t.Errorf("HostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestLimitOfAHost(t *testing.T) {
	one, two, def := job.HostLimit{Concurrency: 1}, job.HostLimit{Concurrency: 2}, job.HostLimit{Concurrency: 9}
	l := job.HostLimits{Default: def, Hosts: map[string]job.HostLimit{"a": one, "a:8443": two, "[::1]": one}}
	for host, want := range map[string]job.HostLimit{"a": one, "a:80": one, "a:8443": two, "b": def, "[::1]:99": one, "[::2]": def} {
		if got := l.Of(host); got != want {
			t.Errorf("limit of %s: %+v", host, got)
		}
	}
	if (job.HostLimit{}).Shared() || !one.Shared() || !(job.HostLimit{Rate: job.RateLimit{PerSecond: 1, Burst: 1}}).Shared() {
		t.Error("which limits all nodes share")
	}
}

// TestBucket: never more tokens than the rate allows in any window, and never
// fewer than it promises.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := job.RateLimit{PerSecond: rapid.Float64Range(0.1, 500).Draw(t, "rate"), Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		now := time.Unix(1_700_000_000, 0)
		var b job.Bucket
		if b.Tokens(r, now) != r.Burst {
			t.Fatal("it is not full at first")
		}
		taken := []time.Time{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			switch n := b.Tokens(r, now); {
			case n < 0 || n > r.Burst:
				t.Fatalf("%d tokens", n)
			case n == 0:
				next := b.Next(r, now)
				if b.Tokens(r, next) < 1 || b.Tokens(r, next.Add(-2*time.Nanosecond)) > 0 {
					t.Fatalf("there is none now, and %v is not when there is one", next.Sub(now))
				}
			default:
				b.Take(r, now, n)
				for range n {
					taken = append(taken, now)
				}
			}
		}
		for i := range taken {
			for k := i; k < len(taken); k++ {
				if most := float64(r.Burst) + taken[k].Sub(taken[i]).Seconds()*r.PerSecond + 1e-6; float64(k-i+1) > most {
					t.Fatalf("%d tokens in %v", k-i+1, taken[k].Sub(taken[i]))
				}
			}
		}
		// A clock that is stepped back costs what is in the bucket, and no more.
		now = now.Add(-time.Hour)
		next := b.Next(r, now)
		if wait := next.Sub(now); wait > time.Duration(float64(time.Second)/r.PerSecond)+time.Nanosecond {
			t.Fatalf("%v until the next token after a step back", wait)
		}
		if b.Tokens(r, next) < 1 {
			t.Fatal("none is there then")
		}
	})
}

func TestRateLimitsThatCannotBe(t *testing.T) {
	for _, r := range []job.RateLimit{{}, {PerSecond: -1, Burst: 1}, {PerSecond: 1}, {PerSecond: 1, Burst: -1}, {PerSecond: 1e9, Burst: 1}, {PerSecond: 1, Burst: 1 << 30}} {
		if r.Check() == "" {
			t.Errorf("%+v passes", r)
		}
	}
	if why := (job.RateLimit{PerSecond: 0.5, Burst: 1}).Check(); why != "" {
		t.Error(why)
	}
}
