package chaos

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Receipt is one delivery as the target saw it.
type Receipt struct {
	Execution    string
	Job          string
	Key          string
	ScheduledFor time.Time
	Attempt      int
	Epoch        int64
	Received     time.Time
	Answered     time.Time // or the caller was gone; zero while neither is so
}

// Ledger is a target that notes every delivery.
type Ledger struct {
	URL string

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

// After is where a delivery is noted, and answered so much later.
func (l *Ledger) After(d time.Duration) string { return l.URL + "/?after=" + d.String() }

// ServeHTTP notes a delivery and answers 200.
func (l *Ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_, _ = io.Copy(io.Discard, r.Body)
	h := r.Header
	slot, err := time.Parse(time.RFC3339Nano, h.Get("Belfry-Scheduled-For"))
	attempt, err2 := strconv.Atoi(h.Get("Belfry-Attempt"))
	epoch, err3 := strconv.ParseInt(h.Get("Belfry-Epoch"), 10, 64)
	l.mu.Lock()
	i := len(l.receipts)
	l.receipts = append(l.receipts, Receipt{
		Execution: h.Get("Belfry-Execution-Id"), Job: h.Get("Belfry-Job-Id"), Key: h.Get("Idempotency-Key"),
		ScheduledFor: slot, Attempt: attempt, Epoch: epoch, Received: now,
	})
	if err != nil || err2 != nil || err3 != nil {
		l.broken = append(l.broken, r.Header.Get("Belfry-Execution-Id"))
	}
	l.grown.Broadcast()
	l.mu.Unlock()
	if after, err := time.ParseDuration(r.URL.Query().Get("after")); err == nil {
		select {
		case <-time.After(after):
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusOK)
	l.mu.Lock()
	l.receipts[i].Answered = time.Now()
	l.mu.Unlock()
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
