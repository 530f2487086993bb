package importer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server takes every line and refuses those with "bad"; fail may break a call off.
type server struct {
	mu   sync.Mutex
	got  map[string]int
	fail func(call int, lines []string) error
	call int
}

func (s *server) Import(_ context.Context, body []byte, result func(api.ImportResult) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call++
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if s.fail != nil {
		if err := s.fail(s.call, lines); err != nil {
			return err
		}
	}
	for i, l := range lines {
		r := api.ImportResult{Line: int64(i + 1), Result: api.ImportCreated}
		if strings.Contains(l, "bad") {
			r.Result, r.Error = api.ImportFailed, &api.Problem{Detail: "bad"}
		} else {
			s.got[l]++
		}
		if err := result(r); err != nil {
			return err
		}
	}
	return nil
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{%d}\n", i+1)
	}
	return b.String()
}

func TestEveryLineIsSentAndProgressGrows(t *testing.T) {
	t.Parallel()
	s := &server{got: map[string]int{}}
	var seen []int64
	p, err := importer.Run(t.Context(), importer.JSONL(strings.NewReader(lines(100))), importer.Config{
		Sender: s, Connections: 4, ChunkLines: 7,
		Progress: func(p importer.Progress) error { seen = append(seen, p.Line); return nil },
	})
	if err != nil || p.Line != 100 || p.Created != 100 || len(s.got) != 100 || p.Offset != int64(len(lines(100))) {
		t.Errorf("progress = %+v, %v; %d lines arrived", p, err, len(s.got))
	}
	for i := 1; i < len(seen); i++ {
		if seen[i] <= seen[i-1] {
			t.Errorf("progress = %v", seen)
		}
	}
}

func TestFailuresNameTheLineOfTheFile(t *testing.T) {
	t.Parallel()
	s := &server{got: map[string]int{}}
	var failed []int64
	text := "{1}\n\n{bad}\n" + strings.Repeat("x", 300<<10) + "\n{5}\n{bad}"
	p, err := importer.Run(t.Context(), importer.JSONL(strings.NewReader(text)), importer.Config{
		Sender: s, ChunkLines: 2,
		Failure: func(f importer.Failure) error { failed = append(failed, f.Line); return nil },
	})
	if err != nil || p.Created != 2 || p.Failed != 3 {
		t.Errorf("progress = %+v, %v", p, err)
	}
	if diff := cmp.Diff([]int64{3, 4, 6}, failed); diff != "" {
		t.Error(diff)
	}
}

func TestAnImportGoesOnWhereItWasBrokenOff(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	s := &server{got: map[string]int{}, fail: func(_ int, l []string) error {
		if l[0] == "{31}" {
			return away
		}
		return nil
	}}
	p, err := importer.Run(t.Context(), importer.JSONL(strings.NewReader(lines(100))), importer.Config{Sender: s, Connections: 3, ChunkLines: 10})
	if !errors.Is(err, away) || p.Line > 30 {
		t.Fatalf("progress = %+v, %v", p, err)
	}
	s.fail = nil
	if p, err = importer.Run(t.Context(), importer.JSONL(strings.NewReader(lines(100))), importer.Config{Sender: s, ChunkLines: 10, After: p.Line}); err != nil || p.Line != 100 {
		t.Fatalf("progress = %+v, %v", p, err)
	}
	if len(s.got) != 100 {
		t.Errorf("%d lines arrived", len(s.got))
	}
}

func TestABrokenAnswerIsAskedForOnceMore(t *testing.T) {
	t.Parallel()
	s := &server{got: map[string]int{}, fail: func(call int, _ []string) error {
		if call == 1 {
			return errors.New("connection reset")
		}
		return nil
	}}
	p, err := importer.Run(t.Context(), importer.JSONL(strings.NewReader(lines(5))), importer.Config{Sender: s})
	if err != nil || p.Created != 5 || s.call != 2 {
		t.Errorf("progress = %+v, %v after %d calls", p, err, s.call)
	}
}

func TestAFullDiskStopsTheImport(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	s := &server{got: map[string]int{}}
	_, err := importer.Run(t.Context(), importer.JSONL(strings.NewReader(lines(50))), importer.Config{
		Sender: s, ChunkLines: 5, Progress: func(importer.Progress) error { return full },
	})
	if !errors.Is(err, full) {
		t.Errorf("error = %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{got: map[string]int{}, fail: func(int, []string) error { cancel(); return context.Canceled }}
	if _, err := importer.Run(ctx, importer.JSONL(strings.NewReader(lines(50))), importer.Config{Sender: s, ChunkLines: 5}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}
