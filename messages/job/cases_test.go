package job

import (
	"strings"
	"testing"
	"time"
)

// caseSources is every reported fault that the schedule answers for, with
// where it was reported. The tests below name the ids.
var caseSources = map[string]string{
	"C01": "robfig/cron#470, robfig/cron#554",
	"C02": "go-co-op/gocron#765, pallets-eco/croniter#141",
	"C04": "taichino/croniter#131, adhocore/gronx#55",
	"C05": "robfig/cron#118, inngest/inngest#2631",
	"C07": "cronie-crond/cronie#215, jmrozanec/cron-utils#336",
	"C08": "harrisiirak/cron-parser#142, apache/airflow#38774",
	"C09": "robfig/cron#543, netresearch/go-cron#89",
	"C10": "harrisiirak/cron-parser#156, dragonmantank/cron-expression#77",
	"C12": "cronie-crond/cronie PR#200, taichino/croniter#119",
	"C13": "bunkat/later#48, atifaziz/NCrontab#31",
	"C15": "hibiken/asynq#306",
	"C17": "taichino/croniter PR#49, Hexagon/croner#253",
	"C19": "robfig/cron#334, netresearch/go-cron#88",
	"C21": "mariusbancila/croncpp#8",
	"C22": "sediman-agent/OpenSkynet#34, saksdirect/sundial#5",
	"C23": "go-co-op/gocron#911, robfig/cron PR#541",
	"C24": "spring-projects/spring-framework#28245",
	"C27": "netresearch/go-cron#349",
	"C28": "kubernetes/kubernetes#121594",
	"C30": "kelektiv/node-cron#881",
	"C31": "celery/celery#10107, sidekiq/sidekiq#5049",
	"C32": "taichino/croniter#82",
	"C34": "spring-projects/spring-framework#36859",
	"C35": "Hexagon/croner#132, jmrozanec/cron-utils#332",
	"C37": "gorhill/cronexpr#24",
	"C38": "agronholm/apscheduler#529",
	"C40": "cronie-crond/cronie#217",
	"C41": "elizaOS/eliza PR#11100, pallets-eco/croniter#258",
	"C42": "pallets-eco/croniter#258, netresearch/go-cron#147",
	"C45": "celery/celery PR#10608",
	"C47": "mvniekerk/tokio-cron-scheduler#107, celery/celery#9653",
	"C48": "go-co-op/gocron#69, celery/celery#1604",
	"C50": "unix.com post 302107657, unix.stackexchange 272779",
	"C51": "dkron-io/dkron#1031",
	"C52": "robfig/cron#132, celery/django-celery-beat#134",
	"C54": "Hexagon/croner#284",
}

// caseSeries are cases beyond testdata/vectors.jsonl with a series to check.
var caseSeries = []struct {
	id, expr, zone, from string
	want                 []string
}{
	{"C02", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	{"C02", "0 0 30 2 1", "", "2026-01-30T00:00:00Z", []string{"2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"}},
	{"C04", "0 0 29 2 *", "", "2028-02-29T12:00:00Z", []string{"2032-02-29T00:00:00Z"}},
	{"C04", "0 0 29 2 *", "", "2028-02-29T23:59:59Z", []string{"2032-02-29T00:00:00Z"}},
	{"C04", "0 0 29 2 *", "", "2096-02-29T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
	{"C04", "0 0 29 2 *", "Europe/Berlin", "2396-02-28T23:00:00Z", []string{"2400-02-28T23:00:00Z"}},
	{"C05", "0 9 13 * ?", "", "2026-01-01T00:00:00Z", []string{"2026-01-13T09:00:00Z", "2026-02-13T09:00:00Z"}},
	{"C05", "0 9 ? * 5", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T09:00:00Z", "2026-01-09T09:00:00Z"}},
	{"C05", "0 9 */1 * 5", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"}},
	{"C05", "0 9 1-31 * 5", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"}},
	{"C12", "0 0 * * 7", "", "2026-01-01T00:00:00Z", []string{"2026-01-04T00:00:00Z"}},
	{"C12", "0 0 * * 0-7", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"}},
	{"C12", "0 0 * * 5-7/2", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z"}},
	{"C12", "0 0 * * SAT-SUN,wed", "", "2026-01-01T00:00:00Z", []string{"2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-07T00:00:00Z"}},
	{"C12", "0 0 * * mon-sun", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}},
	{"C17", "0 0 30 * *", "", "2026-01-31T00:00:00Z", []string{"2026-03-30T00:00:00Z", "2026-04-30T00:00:00Z"}},
	{"C19", "@Daily", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z"}},
	{"C19", "@HOURLY", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00:00Z"}},
	{"C19", "@every 90m", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"}},
	{"C47", "5 2 * * *", "Europe/Dublin", "2026-03-28T00:00:00Z", []string{"2026-03-28T02:05:00Z", "2026-03-29T01:05:00Z"}},
	{"C52", "0 7 * * *", "Europe/Kyiv", "2026-01-01T00:00:00Z", []string{"2026-01-01T05:00:00Z"}},
	{"C52", "0 7 * * *", "US/Pacific", "2026-01-01T00:00:00Z", []string{"2026-01-01T15:00:00Z"}},
	{"C52", "0 7 * * *", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T07:00:00Z"}},

	// Gaps that are not an hour at two o'clock (C41, C42, C45 and their kind).
	{"C42", "15 0 * * *", "Asia/Pyongyang", "2015-08-14T00:00:00Z", []string{"2015-08-14T15:45:00Z", "2015-08-15T15:45:00Z"}},
	{"C42", "45 23 * * *", "Asia/Pyongyang", "2015-08-14T00:00:00Z", []string{"2015-08-14T14:45:00Z", "2015-08-15T15:15:00Z"}},
	{"C42", "45 23 4 5 *", "Asia/Pyongyang", "2018-05-01T00:00:00Z", []string{"2018-05-04T15:00:00Z"}},
	{"C42", "0 3 * * *", "Antarctica/Casey", "2020-10-03T00:00:00Z", []string{"2020-10-03T16:01:00Z", "2020-10-04T16:00:00Z"}},
	{"C42", "45 2 * * *", "America/Caracas", "2016-05-01T00:00:00Z", []string{"2016-05-01T07:00:00Z", "2016-05-02T06:45:00Z"}},
	{"C45", "30 2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
	{"C45", "0,30 1,2 * * *", "Antarctica/Troll", "2026-03-29T00:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-29T23:00:00Z"}},
	{"C45", "30 1 * * *", "Antarctica/Troll", "2026-10-24T12:00:00Z", []string{"2026-10-24T23:30:00Z", "2026-10-26T01:30:00Z"}},
	{"C42", "0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
	{"C42", "0 * * * *", "Pacific/Apia", "2011-12-30T08:30:00Z", []string{"2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"}},
	{"C42", "*/30 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2012-12-29T22:00:00Z"}},
	{"C42", "0 0 * * *", "Pacific/Apia", "2011-12-29T09:30:00Z", []string{"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"}},

	// A leap year's last day, on which Go answers with a span that ended (see spansOf).
	{"C35", "0 12 31 12 *", "Europe/Berlin", "2028-12-31T00:00:00Z", []string{"2028-12-31T11:00:00Z", "2029-12-31T11:00:00Z"}},
	{"C35", "30 23 * * *", "America/Santiago", "2028-12-30T12:00:00Z", []string{"2028-12-31T02:30:00Z", "2029-01-01T02:30:00Z"}},
}

func TestCases(t *testing.T) {
	for _, c := range caseSeries {
		t.Run(c.id+" "+caseSources[c.id]+" "+c.expr+" "+c.zone, func(t *testing.T) {
			var want []time.Time
			for _, w := range c.want {
				want = append(want, instant(t, w))
			}
			checkSeries(t, compile(t, Timing{Expr: c.expr, Zone: c.zone}), instant(t, c.from), want)
		})
	}
}

// Every case id must be exercised by a vector, a series, a refusal or a test
// of its own.
func TestEveryCaseIsTested(t *testing.T) {
	tested := map[string]bool{
		"C15": true, // TestCaseC15MinuteStar
		"C54": true, // TestCaseC54HostZone
	}
	for _, v := range readVectors(t) {
		for _, id := range v.Cases {
			tested[id] = true
		}
	}
	for _, c := range caseSeries {
		tested[c.id] = true
	}
	for _, c := range refusals {
		for _, id := range strings.Fields(c.cases) {
			tested[id] = true
		}
	}
	for id, source := range caseSources {
		if !tested[id] {
			t.Errorf("%s (%s) has no test", id, source)
		}
	}
	for id := range tested {
		if caseSources[id] == "" {
			t.Errorf("%s is tested and names no source", id)
		}
	}
}

// C08, C07: a step is the list it stands for.
func TestCaseC07StepsAreLists(t *testing.T) {
	for _, pair := range [][2]string{
		{"0 0 * * */2", "0 0 * * 0,2,4,6"}, {"0 0 * * */3", "0 0 * * 0,3,6"},
		{"*/35 * * * *", "0,35 * * * *"}, {"5/15 * * * *", "5,20,35,50 * * * *"},
		{"0 0 * * sat-sun", "0 0 * * 0,6"}, {"0 0 1-10/3 * *", "0 0 1,4,7,10 * *"},
	} {
		a, b := compile(t, Timing{Expr: pair[0]}), compile(t, Timing{Expr: pair[1]})
		at := instant(t, "2026-01-02T00:00:00Z")
		for range 500 {
			na, _ := a.Next(at)
			if nb, _ := b.Next(at); !na.Equal(nb) {
				t.Fatalf("%v: after %v: %v and %v", pair, at, na, nb)
			}
			at = na
		}
	}
}

// C15: "* 0 * * *" is sixty firings, and the answers say so beforehand.
func TestCaseC15MinuteStar(t *testing.T) {
	timing := Timing{Expr: "* 0 * * *"}
	m := compile(t, timing).Missed(instant(t, "2025-12-31T23:59:59Z"), instant(t, "2026-01-01T23:59:59Z"), 5)
	if m.Count != 60 {
		t.Errorf("%d firings on 2026-01-01, want 60", m.Count)
	}
	if w := strings.Join(Warnings(timing), "\n"); !strings.Contains(w, "60 times a day") {
		t.Errorf("warnings do not count the firings: %q", w)
	}
}

// C21: a series never stands still, whatever instant it is asked about.
func TestCaseC21Progress(t *testing.T) {
	s := compile(t, Timing{Expr: "30 14 * * *", Zone: "Europe/Vilnius"})
	for _, off := range []time.Duration{-time.Nanosecond, 0, time.Nanosecond, time.Millisecond} {
		at := instant(t, "2020-03-29T11:30:00Z").Add(off)
		next, ok := s.Next(at)
		if !ok || !next.After(at) {
			t.Errorf("Next(%v) = %v, %v", at, next, ok)
		}
	}
}

// C54: the host's own zone has no say.
func TestCaseC54HostZone(t *testing.T) {
	host := time.Local
	t.Cleanup(func() { time.Local = host })
	for _, name := range []string{"Australia/Sydney", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = loc
		for _, v := range readVectors(t) {
			s := compile(t, Timing{Expr: v.Expr, Zone: v.Zone})
			checkSeries(t, s, v.From.In(loc), v.Expect)
			want := compile(t, Timing{Expr: v.Expr, Zone: v.Zone}).In(v.From)
			if got := s.In(v.From.In(loc)); got.String() != want.String() {
				t.Fatalf("shown as %v, want %v", got, want)
			}
		}
	}
}

// failer is what the helpers need of a test, a benchmark or a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// compile is Compile for a Timing that must be accepted.
func compile(t failer, timing Timing) *Schedule {
	t.Helper()
	s, err := Compile(timing)
	if err != nil {
		t.Fatalf("Compile(%+v): %v", timing, err)
	}
	return s
}

func instant(t failer, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return at
}
