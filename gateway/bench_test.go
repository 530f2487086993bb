package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// quick answers commands at once and keeps nothing, so that what is measured is
// the gateway.
type quick struct{ next atomic.Int64 }

func (q *quick) Partitions() int { return 256 }

func (q *quick) Ask(_ context.Context, _ int32, msg proto.Message) (proto.Message, error) {
	switch m := msg.(type) {
	case *belfryv1.Command:
		return q.answer(m), nil
	case *belfryv1.Commands:
		out := &belfryv1.Answers{Answers: make([]*belfryv1.Answer, len(m.GetCommands()))}
		for i, c := range m.GetCommands() {
			out.Answers[i] = q.answer(c)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unexpected %T", msg)
}

func (q *quick) answer(c *belfryv1.Command) *belfryv1.Answer {
	n := q.next.Add(1)
	return &belfryv1.Answer{CommandId: c.GetId(), Created: true, At: start.UnixMilli(), Outcome: &belfryv1.Answer_Job{Job: &belfryv1.Job{
		JobId: c.GetJobId(), Status: "active", Spec: c.GetRegister().GetSpec(), State: &belfryv1.JobState{Generation: n, Revision: n}, NextRun: start.UnixMilli() + 1000,
	}}}
}

const benchSpec = `"schedule_expr":"2026-03-01T13:%02d:%02dZ","target":{"http":{"url":"https://example.com/hook","headers":{"X-Team":"billing"},"body":"0123456789012345678901234567890123456789"}},"labels":{"team":"billing","tier":"one"},"retry":{"max_attempts":3}}`

func benchBody(i int) string {
	return fmt.Sprintf(`{"job_id":"bench-%08d",`+benchSpec, i, i/60%60, i%60)
}

// BenchmarkCreate is POST /v1/jobs over 64 kept connections.
func BenchmarkCreate(b *testing.B) {
	s := setup(b, func(c *Config) { c.Owners = &quick{} })
	addr := s.srv.Listener.Addr().String()
	b.SetParallelism(32)
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		var buf []byte
		for pb.Next() {
			body := benchBody(int(n.Add(1)))
			buf = append(buf[:0], "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "...)
			buf = append(strconv.AppendInt(buf, int64(len(body)), 10), "\r\n\r\n"...)
			if _, err := conn.Write(append(buf, body...)); err != nil {
				b.Error(err)
				return
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != http.StatusCreated {
				b.Error(err, resp)
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkImport is one import of b.N lines.
func BenchmarkImport(b *testing.B) {
	s := setup(b, func(c *Config) { c.Owners = &quick{} })
	var body bytes.Buffer
	for i := range b.N {
		body.WriteString(benchBody(i))
		body.WriteByte('\n')
	}
	b.ReportAllocs()
	b.ResetTimer()
	resp, err := s.srv.Client().Post(s.srv.URL+"/v1/jobs:import", typeNDJSON, &body)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	lines := 0
	for in := bufio.NewScanner(resp.Body); in.Scan(); lines++ {
		if !bytes.Contains(in.Bytes(), []byte(`"created"`)) {
			b.Fatal(in.Text())
		}
	}
	if lines != b.N {
		b.Fatalf("%d lines of %d", lines, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
