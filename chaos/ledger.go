package chaos

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// Ledger is a target that notes every delivery. How it answers is in the URL: see
// Script.
type Ledger struct {
	URL string
	// Secret verifies signatures; nil: none are expected. Set it before the first
	// delivery.
	Secret []byte

	server   *http.Server
	mu       sync.Mutex
	grown    *sync.Cond
	receipts []Receipt
	broken   []string // deliveries that cannot be read
}

// NewLedger listens on a free port of 127.0.0.1.
func NewLedger() (*Ledger, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	led := &Ledger{URL: "http://" + l.Addr().String()}
	led.grown = sync.NewCond(&led.mu)
	led.server = &http.Server{Handler: led, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = led.server.Serve(l) }()
	return led, nil
}

// Also is At with an address of the loopback of its own, for what is kept for each
// host: a circuit that opens is that of one address.
func (l *Ledger) Also(ip string, s Script) (url string, err error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return "", err
	}
	go func() { _ = l.server.Serve(listener) }()
	return "http://" + listener.Addr().String() + "/" + s.query(), nil
}

// After is where a delivery is noted, and answered so much later.
func (l *Ledger) After(d time.Duration) string { return l.At(Script{After: d}) }

// At is where a delivery is noted, and answered as a script says.
func (l *Ledger) At(s Script) string { return l.URL + "/" + s.query() }

// ServeHTTP notes a delivery and answers it.
func (l *Ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := l.note(r, time.Now())
	status := scriptOf(r).play(w, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.receipts[i].Answered, l.receipts[i].Status = time.Now(), status
}

// note writes a delivery down and returns its number.
func (l *Ledger) note(r *http.Request, now time.Time) int {
	h := r.Header
	slot, err := time.Parse(time.RFC3339Nano, h.Get("Belfry-Scheduled-For"))
	attempt, err2 := strconv.Atoi(h.Get("Belfry-Attempt"))
	epoch, err3 := strconv.ParseInt(h.Get("Belfry-Epoch"), 10, 64)
	receipt := Receipt{
		Execution: h.Get("Belfry-Execution-Id"), Job: h.Get("Belfry-Job-Id"), Key: h.Get("Idempotency-Key"),
		ScheduledFor: slot, Attempt: attempt, Epoch: epoch, Received: now, Signature: l.verify(r),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.receipts = append(l.receipts, receipt)
	if err != nil || err2 != nil || err3 != nil {
		l.broken = append(l.broken, receipt.Execution)
	}
	l.grown.Broadcast()
	return len(l.receipts) - 1
}

// verify reads the body to its end.
func (l *Ledger) verify(r *http.Request) check.Signature {
	if l.Secret == nil {
		_, _ = io.Copy(io.Discard, r.Body)
		return check.Unsigned
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return check.Forged
	}
	return signature(l.Secret, r.Header, body)
}

// WaitFor returns when the ledger has n receipts; false at the deadline.
func (l *Ledger) WaitFor(n int, within time.Duration) bool {
	late := time.AfterFunc(within, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.grown.Broadcast()
	})
	defer late.Stop()
	end := time.Now().Add(within)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.receipts) < n {
		if !time.Now().Before(end) {
			return false
		}
		l.grown.Wait()
	}
	return true
}

// Len is how many deliveries have come.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.receipts)
}

// Receipts is a copy of all of them, in order of arrival, and the ids of those
// that could not be read.
func (l *Ledger) Receipts() ([]Receipt, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Receipt(nil), l.receipts...), append([]string(nil), l.broken...)
}

// Close ends the target.
func (l *Ledger) Close() error { return l.server.Close() }
