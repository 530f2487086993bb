package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

// looks answers each request with the next of its lists of members; when they
// are used up nobody listens any more.
type looks []string

func (l *looks) RoundTrip(*http.Request) (*http.Response, error) {
	if len(*l) == 0 {
		return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	}
	body := (*l)[0]
	*l = (*l)[1:]
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func owning(n int) string { return fmt.Sprintf(`[{"node":"n1","incarnation":"a","partitions":%d}]`, n) }

func TestAwaitDrained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		looks looks
		self  bool
		left  bool
		err   error
		seen  string
	}{
		"owns nothing":         {looks: looks{owning(3), owning(3), owning(0)}, seen: "3 0 "},
		"left":                 {looks: looks{owning(3), `[]`}, left: true, seen: "3 "},
		"is back as another":   {looks: looks{owning(3), `[{"node":"n1","incarnation":"b","partitions":9}]`}, left: true, seen: "3 "},
		"it was asked itself":  {looks: looks{owning(3)}, self: true, left: true, seen: "3 "},
		"another one was lost": {looks: looks{owning(3)}, err: syscall.ECONNREFUSED, seen: "3 "},
	} {
		cl, err := client.New(client.Config{Transport: &c.looks})
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		left, err := cl.AwaitDrained(t.Context(), api.Member{Node: "n1", Incarnation: "a", Self: c.self}, func(m api.Member) { seen += fmt.Sprint(m.Partitions, " ") })
		if left != c.left || !errors.Is(err, c.err) || seen != c.seen {
			t.Errorf("%s: left %v, error %v, seen %q", name, left, err, seen)
		}
	}
}
