package execution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Registration refuses all of these; should one come through, it must not
// become two requests.
func TestWhatIsNotOneRequestIsNotSent(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	for name, change := range map[string]func(*belfryv1.Delivery, *belfryv1.HTTPTarget){
		"method":          func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Method = "GET / HTTP/1.1\r\nX:" },
		"no method":       func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Method = "" },
		"name of header":  func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Headers = map[string]string{"A\r\nB": "c"} },
		"no name":         func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Headers = map[string]string{"": "c"} },
		"value of header": func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Headers = map[string]string{"A": "b\r\nC: d"} },
		"agent": func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) {
			h.Headers = map[string]string{"User-Agent": "b\nC: d"}
		},
		"key":       func(d *belfryv1.Delivery, _ *belfryv1.HTTPTarget) { d.Key = "k\r\n\r\nGET / HTTP/1.1" },
		"job":       func(d *belfryv1.Delivery, _ *belfryv1.HTTPTarget) { d.JobId = "\x00" },
		"execution": func(d *belfryv1.Delivery, _ *belfryv1.HTTPTarget) { d.ExecutionId = "a\nb" },
	} {
		r := target(t).Deliver(t.Context(), delivery(url, change), 1, unbroken)
		if r.GetOutcome() != failedOutcome || r.GetSentAt() != 0 || r.GetError() != "nothing was sent: "+errRequest.Error() {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestAJobMaySayWhatItSendsAndWhoItIs(t *testing.T) {
	got := make(chan http.Header, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	for _, c := range []struct {
		headers     map[string]string
		agent, kind string
	}{
		{nil, "Belfry", "application/json"},
		{map[string]string{"user-agent": "mine", "content-type": "text/plain"}, "mine", "text/plain"},
		{map[string]string{"User-Agent": "", "Content-Type": ""}, "Belfry", "application/json"},
	} {
		target(t).Deliver(t.Context(), delivery(url, func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Headers = c.headers }), 1, unbroken)
		h := <-got
		if a, k := h["User-Agent"], h["Content-Type"]; len(a) != 1 || a[0] != c.agent || len(k) != 1 || k[0] != c.kind {
			t.Errorf("%v: %q, %q", c.headers, a, k)
		}
	}
}

func TestWhereARequestGoes(t *testing.T) {
	got := make(chan string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Host + " " + r.RequestURI })
	host := strings.TrimPrefix(url, "http://")
	_, port, _ := net.SplitHostPort(host)
	for path, want := range map[string]string{
		"": host + " /", "/": host + " /", "?": host + " /?", "/a%2Fb/ü?x=1&y=%20": "",
		"//a//b?c?d": host + " //a//b?c?d", "/a%2Fb?x=%20+": host + " /a%2Fb?x=%20+", "/a;b=c,d:e@f": host + " /a;b=c,d:e@f",
	} {
		r := target(t).Deliver(t.Context(), delivery(url+path), 1, unbroken)
		if want == "" {
			if r.GetOutcome() != failedOutcome || r.GetSentAt() != 0 {
				t.Errorf("%s: %v", path, r)
			}
			continue
		}
		if s := <-got; s != want {
			t.Errorf("%q went to %q, want %q", path, s, want)
		}
	}
	target(t).Deliver(t.Context(), delivery("http://LOCALHOST:"+port+"/x"), 1, unbroken)
	if s := <-got; s != "LOCALHOST:"+port+" /x" {
		t.Errorf("went to %q", s)
	}
}

func TestPlacesAreRememberedAndForgotten(t *testing.T) {
	var p places
	p.policy = allow("10.0.0.0/8")
	a := p.of("http://10.1.2.3/a")
	if a.refused != nil || a.address != "10.1.2.3:80" || p.of("http://10.1.2.3/a") != a {
		t.Errorf("%+v", a)
	}
	if b := p.of("https://[2001:db8::1]/"); b.refused == nil || p.of("https://[2001:db8::1]/") != b {
		t.Errorf("%+v", b)
	}
	for i := range 3 * knownPlaces {
		p.of(fmt.Sprint("http://10.1.2.3/", i))
	}
	if len(p.known) > knownPlaces {
		t.Errorf("%d are remembered", len(p.known))
	}
}

// half takes the beginning of each request and then breaks.
type half struct{ net.Conn }

func (h half) Write(b []byte) (int, error) {
	n, _ := h.Conn.Write(b[:20])
	return n, errors.New("broken pipe")
}

// A target may answer, and close, before it has read all of a request.
func TestAnAnswerToHalfARequestCounts(t *testing.T) {
	for answer, want := range map[string]int32{"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n": 413, "": 0} {
		client := target(t)
		client.pool.plain = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.ReadFull(theirs, make([]byte, 20))
				_, _ = io.WriteString(theirs, answer)
				_ = theirs.Close()
			}()
			return half{ours}, nil
		}
		r := client.Deliver(t.Context(), delivery("http://127.0.0.1:8080"), 1, unbroken)
		if r.GetStatusCode() != want || r.GetSentAt() == 0 || client.pool.count != 0 {
			t.Errorf("%q: %v, %d kept", answer, r, client.pool.count)
		}
		if want == 0 && (r.GetOutcome() != unknownOutcome || !strings.Contains(r.GetError(), "broken pipe")) {
			t.Errorf("%q: %v", answer, r)
		}
	}
}
