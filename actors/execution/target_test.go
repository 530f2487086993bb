package execution

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	succeededOutcome = belfryv1.Result_OUTCOME_SUCCEEDED
	failedOutcome    = belfryv1.Result_OUTCOME_FAILED
	timeoutOutcome   = belfryv1.Result_OUTCOME_TIMEOUT
	unknownOutcome   = belfryv1.Result_OUTCOME_UNKNOWN
)

// serve runs a handler on loopback.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// C85 documenso/documenso#3204: attempts differ in nothing but their number and who
// sent them, and a header of the job's own does not take the place of ours.
func TestWhatATargetReceives(t *testing.T) {
	type seen struct {
		header http.Header
		body   string
		method string
		length int64
		coding []string
	}
	got := make(chan seen, 10)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, string(body), r.Method, r.ContentLength, r.TransferEncoding}
	})
	client := target(t)
	own := func(d *belfryv1.Delivery, h *belfryv1.HTTPTarget) {
		d.Key = "original-key"
		h.Headers = map[string]string{"X-Mine": "yes", "idempotency-key": "forged", "Belfry-Epoch": "0", "ce-id": "forged", "Authorization": "Bearer x"}
	}
	first := delivery(url, own)
	second := delivery(url, own, func(d *belfryv1.Delivery, _ *belfryv1.HTTPTarget) { d.Attempt = 2 })
	for i, d := range []*belfryv1.Delivery{first, second} {
		if r := client.Deliver(t.Context(), d, int64(7+i), unbroken); r.GetOutcome() != succeededOutcome || r.GetSentAt() == 0 || r.GetFinishedAt() < r.GetSentAt() {
			t.Fatalf("result %v", r)
		}
	}
	a, b := <-got, <-got
	want := http.Header{
		"Idempotency-Key": {"original-key"}, "Webhook-Id": {"original-key"}, "Ce-Id": {"original-key"},
		"Belfry-Execution-Id": {"job~1~20260101T000000.000Z"}, "Belfry-Job-Id": {"job"}, "Belfry-Scheduled-For": {"2026-01-01T00:00:00.000Z"},
		"Belfry-Attempt": {"1"}, "Belfry-Epoch": {"7"},
		"Ce-Specversion": {"1.0"}, "Ce-Type": {"belfry.execution.due"}, "Ce-Source": {"/test"}, "Ce-Time": {"2026-01-01T00:00:00.000Z"},
		"User-Agent": {"Belfry"}, "Content-Type": {"application/json"}, "Content-Length": {"7"}, "X-Mine": {"yes"}, "Authorization": {"Bearer x"},
	}
	if diff := cmp.Diff(want, a.header); diff != "" {
		t.Error(diff)
	}
	want["Belfry-Attempt"], want["Belfry-Epoch"] = []string{"2"}, []string{"8"}
	if diff := cmp.Diff(want, b.header); diff != "" {
		t.Errorf("second attempt: %s", diff)
	}
	if a.body != `{"a":1}` || a.body != b.body || a.method != "POST" {
		t.Errorf("%s %q, %s %q", a.method, a.body, b.method, b.body)
	}
}

func TestEveryMethodWithAndWithoutBody(t *testing.T) {
	type seen struct {
		method, key, kind, body string
		coding                  int
	}
	got := make(chan seen, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"), string(body), len(r.TransferEncoding)}
	})
	client := target(t)
	for _, c := range []struct{ method, body, kind string }{
		{"GET", "", ""}, {"HEAD", "", ""}, {"DELETE", "", ""}, {"POST", "", ""}, {"PUT", "", ""}, {"PATCH", "", ""},
		{"POST", "text", "application/octet-stream"}, {"PUT", "[1]", "application/json"}, {"DELETE", "{}", "application/json"},
	} {
		r := client.Deliver(t.Context(), delivery(url, func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Method, h.Body = c.method, []byte(c.body) }), 1, unbroken)
		if r.GetOutcome() != succeededOutcome {
			t.Fatalf("%s: %v", c.method, r)
		}
		want := seen{c.method, "job~1~20260101T000000.000Z", c.kind, c.body, 0}
		if s := <-got; s != want {
			t.Errorf("got %+v, want %+v", s, want)
		}
	}
}

// C87 agessaman/meshcore-bot#264, clescot/kafka-connect-http#321: which answers
// are worth another attempt. C88: of a redirect it is told where it leads.
func TestStatusClasses(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.Header().Set("Location", "https://elsewhere.example/new?token=s3cret-s3cret")
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(code)
	})
	client := target(t)
	for codes, want := range map[*[]int]*belfryv1.Result{
		{200, 201, 202, 204, 299}:                {Outcome: succeededOutcome},
		{300, 301, 302, 303, 304, 307, 308}:      {Outcome: failedOutcome, Final: true},
		{400, 401, 403, 404, 409, 418, 422, 451}: {Outcome: failedOutcome, Final: true},
		{410}:                                    {Outcome: failedOutcome, Final: true, Gone: true},
		{408, 425, 429, 500, 502, 503, 504, 599}: {Outcome: failedOutcome, RetryAfterMs: 120_000},
	} {
		for _, code := range *codes {
			r := client.Deliver(t.Context(), delivery(fmt.Sprint(url, "/", code)), 1, unbroken)
			if r.GetOutcome() != want.GetOutcome() || r.GetFinal() != want.GetFinal() || r.GetGone() != want.GetGone() || r.GetRetryAfterMs() != want.GetRetryAfterMs() || r.GetStatusCode() != int32(code) {
				t.Errorf("%d: %v", code, r)
			}
			if failed := r.GetOutcome() != succeededOutcome; failed != (r.GetError() != "") || failed && !strings.Contains(r.GetError(), fmt.Sprint(code)) {
				t.Errorf("%d: error %q", code, r.GetError())
			}
			if code/100 == 3 && (!strings.Contains(r.GetError(), "elsewhere.example/new") || strings.Contains(r.GetError(), "s3cret")) {
				t.Errorf("%d: error %q", code, r.GetError())
			}
		}
	}
}

// C87: odd values are none.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"120":                           2 * time.Minute,
		"999999999":                     longestRetryAfter,
		"99999999999999999999999":       longestRetryAfter,
		"-1":                            0,
		"+5":                            0,
		"1.5":                           0,
		"soon":                          0,
		" 7":                            0,
		"Thu, 01 Jan 2026 12:05:00 GMT": 5 * time.Minute,
		"Thu, 01 Jan 2026 11:05:00 GMT": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": longestRetryAfter,
		"Thursday":                      0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After: %q is %v, want %v", value, got, want)
		}
	}
}

// C88 formbricks/formbricks PR#7877: neither inside, nor on the same host, nor in a
// circle.
func TestRedirectsAreNotFollowed(t *testing.T) {
	seen := make(chan string, 100)
	internal := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.URL.Path })
	places := []string{internal + "/admin", "http://169.254.169.254/latest/meta-data/", "/308/2"} // the last leads to itself
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path
		var code, to int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d/%d", &code, &to)
		w.Header().Set("Location", places[to])
		w.WriteHeader(code)
	})
	client := target(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		for i, to := range places {
			path := fmt.Sprintf("/%d/%d", code, i)
			r := client.Deliver(t.Context(), delivery(url+path), 1, unbroken)
			if r.GetOutcome() != failedOutcome || !r.GetFinal() || r.GetStatusCode() != int32(code) || !strings.Contains(r.GetError(), to) {
				t.Errorf("%s to %q: %v", path, to, r)
			}
			if got := <-seen; got != path || len(seen) != 0 {
				t.Errorf("%s to %q: %s was called, and %d more", path, to, got, len(seen))
			}
		}
	}
}

// rawServer answers each connection with a script; it counts whole requests.
type rawServer struct {
	url      string
	requests chan string // the request lines that were read
}

// raw runs handle for each request of each connection, until it returns false.
func raw(t *testing.T, handle func(n int, conn net.Conn) bool) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String(), requests: make(chan string, 1000)}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			go s.serve(conn, handle)
		}
	}()
	t.Cleanup(func() { stop(); _ = l.Close(); <-done })
	return s
}

func (s *rawServer) serve(conn net.Conn, handle func(int, net.Conn) bool) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		s.requests <- req.Method
		if !handle(n, conn) {
			return
		}
	}
}

func (s *rawServer) count() int { return len(s.requests) }

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// Go's Transport sends a request again, unseen, when a kept connection is lost
// after the request was read and the request looks repeatable.
func TestALostKeptConnectionIsOneDelivery(t *testing.T) {
	for _, c := range []struct{ method, body string }{
		{"POST", "{}"}, {"POST", ""}, {"PUT", ""}, {"PATCH", ""}, {"DELETE", ""}, {"DELETE", "{}"}, {"GET", ""}, {"HEAD", ""},
	} {
		for _, how := range []string{"closed", "reset"} {
			t.Run(c.method+c.body+how, func(t *testing.T) {
				s := raw(t, func(n int, conn net.Conn) bool {
					if n == 1 {
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						return true
					}
					if how == "reset" {
						_ = conn.(*net.TCPConn).SetLinger(0)
					}
					return false
				})
				client := target(t)
				d := delivery(s.url, func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Method, h.Body = c.method, []byte(c.body) })
				if r := client.Deliver(t.Context(), d, 1, unbroken); r.GetOutcome() != succeededOutcome {
					t.Fatalf("first: %v", r)
				}
				r := client.Deliver(t.Context(), d, 1, unbroken)
				if r.GetOutcome() != unknownOutcome || r.GetSentAt() == 0 || !strings.Contains(r.GetError(), "the answer was lost") {
					t.Errorf("second: %v", r)
				}
				if n := s.count(); n != 2 {
					t.Errorf("the target saw %d requests of 2 deliveries", n)
				}
			})
		}
	}
}

// brokenAnswers are what a target may do instead of answering; each costs one
// attempt.
// C84: what was sent and got no whole answer may have had its effect.
func TestBrokenAnswers(t *testing.T) {
	write := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	forever := func(start, piece string) func(net.Conn) {
		return func(c net.Conn) {
			for _, err := io.WriteString(c, start); err == nil; _, err = io.WriteString(c, piece) {
			}
		}
	}
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   belfryv1.Result_Outcome
		status int32
	}{
		"nothing":                   {write(""), unknownOutcome, 0},
		"reset":                     {func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, unknownOutcome, 0},
		"garbage":                   {write("\x00\xff SSH-2.0-OpenSSH\r\n\r\n"), unknownOutcome, 0},
		"half a status line":        {write("HTTP/1.1 2"), unknownOutcome, 0},
		"half a header":             {write("HTTP/1.1 200 OK\r\nContent-Le"), unknownOutcome, 0},
		"bad length":                {write("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), unknownOutcome, 0},
		"two lengths":               {write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), unknownOutcome, 0},
		"short body of 200":         {write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), unknownOutcome, 200},
		"short body of 500":         {write("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nabc"), failedOutcome, 500},
		"bad chunk":                 {write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), unknownOutcome, 200},
		"endless body":              {forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1000)), succeededOutcome, 200},
		"endless chunks":            {forever("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a\r\n0123456789\r\n"), succeededOutcome, 200},
		"endless body of 503":       {forever("HTTP/1.1 503 Busy\r\n\r\n", strings.Repeat("x", 1000)), failedOutcome, 503},
		"endless headers":           {forever("HTTP/1.1 200 OK\r\n", "A: b\r\n"), unknownOutcome, 0},
		"a header of 1 MiB":         {write("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), unknownOutcome, 0},
		"endless interim answers":   {forever("", "HTTP/1.1 103 Early Hints\r\n\r\n"), unknownOutcome, 0},
		"an unasked-for upgrade":    {write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), failedOutcome, 101},
		"status 999":                {write("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"), failedOutcome, 999},
		"answer before the request": {write(ok), succeededOutcome, 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := raw(t, func(_ int, conn net.Conn) bool { c.answer(conn); return false })
			r := target(t).Deliver(t.Context(), delivery(s.url), 1, unbroken)
			if r.GetOutcome() != c.want || r.GetStatusCode() != c.status {
				t.Errorf("result %v", r)
			}
			if n := s.count(); n != 1 {
				t.Errorf("the target saw %d requests", n)
			}
			if len(r.GetOutput()) > maxOutput || len(r.GetError()) > maxError || !utf8.ValidString(r.GetError()) {
				t.Errorf("%d bytes of output, error %q", len(r.GetOutput()), r.GetError())
			}
		})
	}
}

// C84: it is no failure, as the target may be about to finish.
func TestTheTimeoutCoversTheWholeAttempt(t *testing.T) {
	for name, start := range map[string]string{
		"before the answer": "",
		"in the headers":    "HTTP/1.1 200 OK\r\nA:",
		"in the body":       "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"in a body of 500":  "HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			s := raw(t, func(_ int, conn net.Conn) bool { _, _ = io.WriteString(conn, start); return true })
			r := target(t).Deliver(t.Context(), delivery(s.url, func(d *belfryv1.Delivery, _ *belfryv1.HTTPTarget) { d.TimeoutMs = 500 }), 1, unbroken)
			if r.GetOutcome() != timeoutOutcome || !strings.Contains(r.GetError(), "500ms") || r.GetSentAt() == 0 {
				t.Errorf("result %v", r)
			}
		})
	}
}

func TestACutCallIsUnknownOnceSent(t *testing.T) {
	read := make(chan struct{})
	s := raw(t, func(int, net.Conn) bool { close(read); return true })
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-read; cancel(errCut) }()
	r := target(t).Deliver(ctx, delivery(s.url), 1, unbroken)
	if r.GetOutcome() != unknownOutcome || !strings.Contains(r.GetError(), "the node shuts down") {
		t.Errorf("result %v", r)
	}
}

// C87: a connection that is refused, or no TLS, is worth another attempt.
func TestNothingSentIsFailed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	for name, url := range map[string]string{
		"refused":             closed,
		"TLS to a plain port": strings.Replace(plain, "http:", "https:", 1),
		"unknown name":        "http://nobody.invalid/",
	} {
		r := target(t).Deliver(t.Context(), delivery(url), 1, unbroken)
		if r.GetOutcome() != failedOutcome || r.GetSentAt() != 0 || r.GetFinal() || !strings.HasPrefix(r.GetError(), "nothing was sent") {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestHTTPS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	stranger := target(t).Deliver(t.Context(), delivery(s.URL), 1, unbroken)
	if stranger.GetOutcome() != failedOutcome || !strings.Contains(stranger.GetError(), "certificate") {
		t.Errorf("unknown authority: %v", stranger)
	}
	client := target(t, func(c *TargetConfig) {
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		c.TLS = &tls.Config{RootCAs: pool}
	})
	for range 2 {
		r := client.Deliver(t.Context(), delivery(s.URL), 1, unbroken)
		if r.GetOutcome() != succeededOutcome || r.GetOutput() != "HTTP/1.1" || r.GetSentAt() == 0 {
			t.Errorf("result %v", r)
		}
	}
}

func TestOutputIsTheBeginningAsUTF8(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "\xff"+strings.Repeat("ä", 5000))
	})
	r := target(t).Deliver(t.Context(), delivery(url), 1, unbroken)
	if out := r.GetOutput(); !utf8.ValidString(out) || len(out) > maxOutput || len(out) < maxOutput-3 || !strings.HasPrefix(out, "\uFFFDää") {
		t.Errorf("%d bytes: %.20q", len(r.GetOutput()), r.GetOutput())
	}
}

// OpenAgentsInc/openagents#8564, apache/airflow#62428: secrets in answers,
// errors and history.
func TestEchoedSecretsAreMasked(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/x/"+r.URL.Query().Get("token"))
		w.WriteHeader(http.StatusFound)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.URL.RequestURI(), r.Header.Get("Authorization"), strings.Repeat(".", 980)+r.URL.Query().Get("token"))
	})
	d := delivery(url+"/hook?token=t0ken%2Fvalue&page=2", func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) {
		h.Headers = map[string]string{"Authorization": "Bearer b3arer-value"}
	})
	r := target(t).Deliver(t.Context(), d, 1, unbroken)
	for _, text := range []string{r.GetOutput(), r.GetError()} {
		for _, secret := range []string{"t0ken", "b3arer"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds %s", text, secret)
			}
		}
	}
	if !strings.Contains(r.GetOutput(), "page=2") {
		t.Errorf("nothing else is masked: %q", r.GetOutput())
	}
	refused := target(t).Deliver(t.Context(), delivery("https://user:hunter2@example.com/?token=t0ken"), 1, unbroken)
	broken := target(t).Deliver(t.Context(), delivery("http://127.0.0.1:1/?q=t0ken"), 1, unbroken)
	for _, r := range []*belfryv1.Result{refused, broken} {
		if r.GetError() == "" || strings.Contains(r.GetError(), "hunter2") || strings.Contains(r.GetError(), "t0ken") {
			t.Errorf("error %q", r.GetError())
		}
	}
}

func TestUnknownKindsOfTargetsFail(t *testing.T) {
	r := target(t).Deliver(t.Context(), &belfryv1.Delivery{}, 1, unbroken)
	if r.GetOutcome() != failedOutcome || !r.GetFinal() {
		t.Errorf("result %v", r)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	conns := make(chan net.Conn, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, strings.Repeat("x", 60<<10))
	}))
	s.Config.ConnState = func(c net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns <- c
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	client := target(t)
	for range 5 {
		if r := client.Deliver(t.Context(), delivery(s.URL), 1, unbroken); r.GetStatusCode() != 500 {
			t.Fatalf("result %v", r)
		}
	}
	if n := len(conns); n != 1 {
		t.Errorf("%d connections for 5 calls", n)
	}
}

// A dead kept connection to which nothing was written is no attempt: the next
// one is tried.
func TestAStaleConnectionCostsNothing(t *testing.T) {
	client := target(t)
	tries := 0
	client.pool.plain = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		tries++
		go answerOnce(theirs)
		return &mute{Conn: ours, after: 1}, nil
	}
	for n := range 3 {
		if r := client.Deliver(t.Context(), delivery("http://127.0.0.1:8080"), 1, unbroken); r.GetOutcome() != succeededOutcome {
			t.Fatalf("call %d: %v", n, r)
		}
	}
	if tries != 3 {
		t.Errorf("%d connections, want one each", tries)
	}
}

// mute lets one request through and refuses to write another.
type mute struct {
	net.Conn
	after int
}

func (m *mute) Write(b []byte) (int, error) {
	if m.after--; m.after < 0 {
		return 0, errors.New("broken pipe")
	}
	return m.Conn.Write(b)
}

func answerOnce(conn net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.WriteString(conn, ok)
	}
}
