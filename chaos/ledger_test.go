package chaos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// delivery is what a node sends.
func delivery(t testing.TB, url string, attempt int, secret string) *http.Request {
	t.Helper()
	const body = `{"n": 1}`
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Belfry-Execution-Id": "a~1~20260101T000000.000Z", "Belfry-Job-Id": "a", "Idempotency-Key": "a~1~20260101T000000.000Z",
		"Belfry-Scheduled-For": "2026-01-01T00:00:00Z", "Belfry-Attempt": strconv.Itoa(attempt), "Belfry-Epoch": "7",
		"Webhook-Id": "a~1~20260101T000000.000Z", "Webhook-Timestamp": "1767225600",
	} {
		req.Header.Set(name, value)
	}
	if secret != "" {
		mac := hmac.New(sha256.New, []byte(secret))
		_, _ = io.WriteString(mac, "a~1~20260101T000000.000Z.1767225600."+body)
		req.Header.Set("Webhook-Signature", "v1a,x v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return req
}

func testLedger(t testing.TB) *Ledger {
	t.Helper()
	l, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestLedgerScripts: a target answers as its URL says, and the receipt tells what
// the caller has seen.
func TestLedgerScripts(t *testing.T) {
	l := testLedger(t)
	client := &http.Client{
		Timeout: 300 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for i, c := range []struct {
		script  Script
		attempt int
		status  int // 0: an error
		bytes   int
	}{
		{Script{}, 1, 200, 0},
		{Script{Status: 500}, 1, 500, 0},
		{Script{Status: 500, UpTo: 2}, 2, 500, 0},
		{Script{Status: 500, UpTo: 2}, 3, 200, 0},
		{Script{After: 10 * time.Millisecond}, 1, 200, 0},
		{Script{Hang: true}, 1, 0, 0},
		{Script{Reset: true}, 1, 0, 0},
		{Script{Body: 100_000}, 1, 200, 100_000},
		{Script{To: "http://127.0.0.1:1/"}, 1, 302, 0},
	} {
		resp, err := client.Do(delivery(t, l.At(c.script), c.attempt, ""))
		status, n := 0, 0
		if err == nil {
			status = resp.StatusCode
			body, _ := io.ReadAll(resp.Body)
			n = len(body)
			resp.Body.Close()
		}
		if status != c.status || n != c.bytes {
			t.Errorf("%+v: %d with %d bytes, %v", c.script, status, n, err)
		}
		eventually(t, "the receipt is complete", func() bool { rs, _ := l.Receipts(); return !rs[i].Answered.IsZero() })
		rs, broken := l.Receipts()
		if r := rs[i]; r.Status != c.status || r.Attempt != c.attempt || r.Epoch != 7 || r.Job != "a" || len(broken) > 0 {
			t.Errorf("%+v: noted as %+v", c.script, r)
		}
	}
}

func TestLedgerVerifiesSignatures(t *testing.T) {
	l := testLedger(t)
	l.Secret = []byte("secret")
	for _, secret := range []string{"secret", "another", ""} {
		resp, err := http.DefaultClient.Do(delivery(t, l.URL, 1, secret))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	rs, _ := l.Receipts()
	for i, want := range []check.Signature{check.Verified, check.Forged, check.Unsigned} {
		if rs[i].Signature != want {
			t.Errorf("delivery %d: signature %d, not %d", i, rs[i].Signature, want)
		}
	}
}

// BenchmarkLedger is how many deliveries a second the ledger takes, with the
// callers on the same machine.
func BenchmarkLedger(b *testing.B) {
	l := testLedger(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var callers sync.WaitGroup
	b.ResetTimer()
	for c := range 32 {
		callers.Go(func() {
			for i := c; i < b.N; i += 32 {
				resp, err := client.Do(delivery(b, l.URL, 1, ""))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
