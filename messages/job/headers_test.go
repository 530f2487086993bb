package job

import (
	"fmt"
	"strings"
	"testing"
)

// C85: among them a key of the job's own, which would take the place of ours.
func TestHeadersThatAreRefused(t *testing.T) {
	many := map[string]string{}
	for i := range MaxHeaders + 1 {
		many[fmt.Sprint("X-", i)] = ""
	}
	cases := []struct {
		headers map[string]string
		says    string
	}{
		{map[string]string{"": "x"}, "not a header name"},
		{map[string]string{"A B": "x"}, "not a header name"},
		{map[string]string{"A:": "x"}, "not a header name"},
		{map[string]string{"A\r\nB": "x"}, "not a header name"},
		{map[string]string{"Ä": "x"}, "not a header name"},
		{map[string]string{"A": "x\r\nHost: evil"}, "line break"},
		{map[string]string{"A": "x\x00"}, "line break"},
		{map[string]string{"a": "1", "A": "2"}, "same header"},
		{many, "at most 32"},
		{map[string]string{"A": strings.Repeat("x", MaxHeaderBytes)}, "at most 8192"},
	}
	for _, name := range []string{
		"Host", "hOsT", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "TE", "Trailer", "Expect",
		"Proxy-Authorization", "Proxy-Connection", "Forwarded", "X-Forwarded-For", "x-forwarded-host", "Idempotency-Key", "X-Idempotency-Key",
		"Belfry-Attempt", "belfry-anything", "ce-id", "CE-Source", "webhook-id", "Webhook-Signature", "traceparent", "Nats-Msg-Id",
	} {
		cases = append(cases, struct {
			headers map[string]string
			says    string
		}{map[string]string{name: "x"}, "set by Belfry"})
	}
	for _, c := range cases {
		problems := CheckHeaders("target.http.headers", c.headers)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, c.says) || problems[0].Field != "target.http.headers" {
			t.Errorf("%.80q: %v, want one that says %q", c.headers, problems, c.says)
		}
	}
}

func TestHeadersThatArePermitted(t *testing.T) {
	for _, h := range []map[string]string{
		nil,
		{"Authorization": "Bearer x", "Content-Type": "text/plain; charset=utf-8", "User-Agent": "me", "X-Api-Key": "k", "Accept": "*/*", "Empty": "", "Ünused": ""},
		{"A": "tab\tis fine", "B": "ünïcode is bytes"},
	} {
		delete(h, "Ünused")
		if problems := CheckHeaders("f", h); len(problems) != 0 {
			t.Errorf("%v: %v", h, problems)
		}
	}
}

func TestHeaderProblemsDoNotRepeatValues(t *testing.T) {
	for _, p := range CheckHeaders("f", map[string]string{"Authorization": "hunter2\n", "Host": "hunter2", "b": "hunter2", "B": "hunter2"}) {
		if strings.Contains(p.Message, "hunter2") {
			t.Error(p.Message)
		}
	}
}
