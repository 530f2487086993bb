//go:build unix

package execution

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const benchOwners = 16

// processor is how much processor time this process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// spent reports what a delivery cost since the processor time before.
func spent(b *testing.B, before time.Duration) {
	b.StopTimer()
	b.ReportMetric(float64(processor(b)-before)/1000/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// run sends b.N deliveries from 16 owners through a worker with 512 slots and
// waits until all are reported. Owners here commit nothing.
func run(b *testing.B, d Deliverer, make func(partition int32, n int) *belfryv1.Delivery) {
	w := newWorld(b, benchOwners, b.N, config(512, d))
	b.ReportAllocs()
	before := processor(b)
	b.ResetTimer()
	for p := range benchOwners {
		var ds work
		for n := p; n < b.N; n += benchOwners {
			ds = append(ds, make(int32(p), n))
		}
		w.give(int32(p), ds)
	}
	<-w.all
	spent(b, before)
	w.close()
}

// BenchmarkWorker is the whole path but for the call itself.
func BenchmarkWorker(b *testing.B) {
	run(b, delivererFunc(success), numbered)
}

func sink(b *testing.B) string {
	return serve(b, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
}

// BenchmarkWorkerHTTP calls a server in this process; compare it with
// BenchmarkHTTPClient.
func BenchmarkWorkerHTTP(b *testing.B) {
	url := sink(b)
	run(b, target(b, func(c *TargetConfig) { c.Slots = 512 }), func(p int32, n int) *belfryv1.Delivery {
		return delivery(url, func(d *belfryv1.Delivery, _ *belfryv1.HTTPTarget) { d.ExecutionId = fmt.Sprintf("p%d-%d", p, n) })
	})
}

// BenchmarkHTTPClient is 64 loops over http.Client with as many kept
// connections and the same headers: what the machine can do at best.
func BenchmarkHTTPClient(b *testing.B) {
	const loops = 64
	url := sink(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: loops, MaxIdleConnsPerHost: loops}}
	b.Cleanup(client.CloseIdleConnections)
	work := make(chan struct{})
	var all sync.WaitGroup
	for range loops {
		all.Go(func() {
			for range work {
				req, _ := http.NewRequest("POST", url, strings.NewReader(`{"a":1}`))
				req.Header.Set("Content-Type", "application/json")
				for _, name := range strings.Fields("Idempotency-Key Webhook-Id Belfry-Execution-Id Belfry-Job-Id Belfry-Scheduled-For Belfry-Attempt Belfry-Epoch Ce-Specversion Ce-Type Ce-Source Ce-Id Ce-Time") {
					req.Header.Set(name, "job~1~20260101T000000.000Z")
				}
				res, err := client.Do(req)
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	b.ReportAllocs()
	before := processor(b)
	b.ResetTimer()
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	all.Wait()
	spent(b, before)
}

// BenchmarkTarget is one call after another.
func BenchmarkTarget(b *testing.B) {
	url := sink(b)
	t := target(b)
	d := delivery(url)
	b.ReportAllocs()
	for b.Loop() {
		if r := t.Deliver(b.Context(), d, 1, unbroken); r.GetOutcome() != succeededOutcome {
			b.Fatal(r)
		}
	}
}
