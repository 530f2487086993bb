package wire

import (
	"testing"
	"time"
)

// BenchmarkTell is one message of 100 bytes of payload from process to process;
// BenchmarkRequest one and its answer, with 64 callers at a time.
func BenchmarkTell(b *testing.B) {
	benchmark(b, func(b *testing.B, from, to *process) {
		const most = 100_000 // at a time, so that the queue does not fill
		for done := 0; done < b.N; {
			n := min(b.N-done, most)
			from.tell(order{Op: "tell", Address: to.address, ID: "echo", N: n, Size: 100})
			done += n
			to.until("all are there", func(r report) bool { return r.Got > int64(done) }) // with the first request
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	benchmark(b, func(b *testing.B, from, to *process) {
		const callers = 64
		n := max(b.N, callers)
		from.tell(order{Op: "request", Address: to.address, ID: "echo", N: n, Callers: callers, Size: 100, Timeout: 10 * time.Second})
	})
}

func benchmark(b *testing.B, run func(b *testing.B, from, to *process)) {
	ca := newAuthority(b)
	off := func(c *nodeConfig) { c.OffSending, c.OffReceiving = true, true }
	for _, bb := range []struct {
		name string
		cfg  func() nodeConfig
	}{
		{"plain", func() nodeConfig { return plain }},
		{"plain/unguarded", func() nodeConfig { return unguarded }},
		{"tls", func() nodeConfig { return ca.node() }},
		{"tls/unguarded", func() nodeConfig { return ca.node().with(off) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			from, to := start(b, bb.cfg()), start(b, bb.cfg())
			if r := from.request(to, 1, 0); r.OK != 1 { // connected, both ways
				b.Fatalf("%+v", r)
			}
			b.ResetTimer()
			run(b, from, to)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
