package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestMessageTargets(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Brokers = map[string]string{"default": "nats", "events": "kafka"} })
	for id, target := range map[string]string{
		"nats":  `{"nats":{"broker":"default","subject":"orders.due","headers":{"Authorization":"Bearer env://BELFRY_SECRET_A"},"payload":{"a":[1]}}}`,
		"kafka": `{"kafka":{"broker":"events","topic":"orders","key":"k","headers":{"X-A":"b"},"payload":"text"}}`,
	} {
		b.do("PUT", "/v1/jobs/"+id, `{"schedule_expr":"@daily","target":`+target+`}`).want(201)
		got := read[api.Job](b.do("GET", "/v1/jobs/"+id, "").want(200))
		text, err := encode(got.Target)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(target, strings.ReplaceAll(string(text), "\n", "")); diff != "" {
			t.Error(diff)
		}
		b.do("PATCH", "/v1/jobs/"+id, `{"description":"x"}`).want(200)
	}
	b.do("PUT", "/v1/jobs/short", `{"schedule_expr":"@daily","target":{"nats":{"subject":"a"}}}`).want(201)
	if text := b.do("GET", "/v1/jobs?target=orders.due", "").text; !strings.Contains(text, `"job_id":"nats"`) || strings.Contains(text, `"kafka"`) {
		t.Errorf("found by subject: %s", text)
	}
	long := strings.Repeat("x", 256)
	for target, location := range map[string]string{
		`{"nats":{"broker":"events","subject":"a"}}`:                                        "body.target.nats.broker",
		`{"nats":{"broker":"absent","subject":"a"}}`:                                        "body.target.nats.broker",
		`{"nats":{"broker":"a b","subject":"a"}}`:                                           "body.target.nats.broker",
		`{"kafka":{"topic":"a"}}`:                                                           "body.target.kafka.broker",
		`{"nats":{}}`:                                                                       "body.target.nats.subject",
		`{"nats":{"subject":"a.*"}}`:                                                        "body.target.nats.subject",
		`{"nats":{"subject":"a.>"}}`:                                                        "body.target.nats.subject",
		`{"nats":{"subject":"a..b"}}`:                                                       "body.target.nats.subject",
		`{"nats":{"subject":".a"}}`:                                                         "body.target.nats.subject",
		`{"nats":{"subject":"a b"}}`:                                                        "body.target.nats.subject",
		`{"nats":{"subject":"a\u0000"}}`:                                                    "body.target.nats.subject",
		`{"nats":{"subject":"$JS.API.STREAM.DELETE.ORDERS"}}`:                               "body.target.nats.subject",
		`{"nats":{"subject":"_INBOX.x"}}`:                                                   "body.target.nats.subject",
		`{"nats":{"subject":"` + long + `"}}`:                                               "body.target.nats.subject",
		`{"nats":{"subject":"a","headers":{"Nats-Msg-Id":"x"}}}`:                            "body.target.nats.headers",
		`{"nats":{"subject":"a","headers":{"Nats-Rollup":"all"}}}`:                          "body.target.nats.headers",
		`{"nats":{"subject":"a","headers":{"X-Token":"hunter2"}}}`:                          "body.target.nats.headers",
		`{"nats":{"subject":"a","payload":"` + strings.Repeat("x", 64<<10+1) + `"}}`:        "body.target.nats.payload",
		`{"nats":{"subject":"a","topic":"a"}}`:                                              "body.target.nats.topic",
		`{"kafka":{"broker":"events","topic":"__consumer_offsets"}}`:                        "body.target.kafka.topic",
		`{"kafka":{"broker":"events","topic":".."}}`:                                        "body.target.kafka.topic",
		`{"kafka":{"broker":"events","topic":"a/b"}}`:                                       "body.target.kafka.topic",
		`{"kafka":{"broker":"events","topic":"é"}}`:                                         "body.target.kafka.topic",
		`{"kafka":{"broker":"events","topic":"` + long + `"}}`:                              "body.target.kafka.topic",
		`{"kafka":{"broker":"events","topic":"a","key":"` + strings.Repeat(long, 5) + `"}}`: "body.target.kafka.key",
		`{"kafka":{"broker":"events","topic":"a","headers":{"Belfry-Attempt":"1"}}}`:        "body.target.kafka.headers",
		`{"nats":{"subject":"a"},"kafka":{"broker":"events","topic":"a"}}`:                  "body.target",
	} {
		b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":`+target+`}`).refused(location)
	}
}
