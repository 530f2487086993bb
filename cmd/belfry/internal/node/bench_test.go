package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// benchNode is a quiet node for the profiles: client, node and target in one
// process. The numbers that count are those of "belfry bench".
func benchNode(b *testing.B, got func()) (*Node, string) {
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got()
	}))
	b.Cleanup(target.Close)
	cfg := DefaultConfig()
	cfg.DataDir, cfg.Listen = b.TempDir(), "127.0.0.1:0"
	cfg.AllowTargets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Logger = slog.New(slog.DiscardHandler)
	n, err := Start(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	for ok := false; !ok; ok, _ = n.Ready() {
		<-time.After(time.Millisecond)
	}
	b.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := n.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return n, target.URL
}

func importLines(b *testing.B, n *Node, lines io.Reader) {
	resp, err := http.Post(n.URL()+"/v1/jobs:import", "application/x-ndjson", lines)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkImport(b *testing.B) {
	n, target := benchNode(b, func() {})
	var body bytes.Buffer
	at := time.Now().Add(240 * time.Hour).UTC().Format(time.RFC3339)
	for i := range b.N {
		fmt.Fprintf(&body, `{"job_id":"job-%08d","schedule_expr":%q,"target":{"http":{"url":%q,"body":"%s"}}}`+"\n", i, at, target, strings.Repeat("x", 150))
	}
	b.ResetTimer()
	importLines(b, n, &body)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkSpike(b *testing.B) {
	var count atomic.Int64
	done := make(chan struct{})
	total := int64(b.N)
	n, target := benchNode(b, func() {
		if count.Add(1) == total {
			close(done)
		}
	})
	var body bytes.Buffer
	due := time.Now().Add(time.Duration(3+b.N/20_000) * time.Second).UTC().Truncate(time.Millisecond)
	for i := range b.N {
		fmt.Fprintf(&body, `{"job_id":"job-%08d","schedule_expr":%q,"target":{"http":{"url":%q,"body":"%s"}}}`+"\n", i, due.Format("2006-01-02T15:04:05.000Z"), target, strings.Repeat("x", 150))
	}
	importLines(b, n, &body)
	<-time.After(time.Until(due))
	b.ResetTimer()
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkMemory holds b.N jobs and reports the live heap of each.
func BenchmarkMemory(b *testing.B) {
	n, target := benchNode(b, func() {})
	at := time.Now().Add(240 * time.Hour).UTC().Format(time.RFC3339)
	r, w := io.Pipe()
	go func() {
		for i := range b.N {
			fmt.Fprintf(w, `{"job_id":"job-%08d","schedule_expr":%q,"target":{"http":{"url":%q,"body":"%s"}}}`+"\n", i, at, target, strings.Repeat("x", 150))
		}
		_ = w.Close()
	}()
	importLines(b, n, r)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/float64(b.N), "live-B/job")
	b.ReportMetric(float64(m.Sys)/float64(b.N), "sys-B/job")
}
