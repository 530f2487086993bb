package job

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzHeaders: headers that are accepted arrive as one request, with these and no
// others, whatever they are.
func FuzzHeaders(f *testing.F) {
	f.Add("Authorization", "Bearer x", "X-Api-Key", "k")
	f.Add("A", "x\r\nHost: evil", "a", "")
	f.Add("hOsT", "evil", "Transfer-Encoding", "chunked")
	f.Add("A\r\nB", "", "Belfry-Attempt", "1")
	f.Add("B", " ünïcode\t", "X-Forwarded-For", "1.2.3.4")
	f.Add("User-Agent", "", "Accept", "*/*")
	f.Fuzz(func(t *testing.T, name, value, other, more string) {
		given := map[string]string{name: value, other: more}
		problems := CheckHeaders("headers", given)
		for _, p := range problems {
			if p.Field != "headers" || p.Message == "" || len(p.Message) > 600 {
				t.Fatalf("%q: %+v", given, p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if n := len(name) + len(value) + len(other) + len(more); name != other && n > MaxHeaderBytes {
			t.Fatalf("%d bytes are accepted", n)
		}
		got := overTheWire(t, given)
		for name, value := range given {
			value = strings.Trim(value, " \t")
			if strings.EqualFold(name, "User-Agent") && value == "" {
				continue // that is how one asks the client to send none
			}
			if kept := got.Values(name); len(kept) != 1 || kept[0] != value {
				t.Fatalf("%s: %q arrives as %q", name, value, kept)
			}
		}
		for name := range got {
			if _, ours := given[name]; !ours && ReservedHeader(name) {
				t.Fatalf("%q: %s has come along", given, name)
			}
		}
	})
}

// overTheWire writes a request with headers and reads it back, to its end. Each is
// there under its canonical name.
func overTheWire(t *testing.T, given map[string]string) http.Header {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "us") // or the client adds its own
	for name, value := range given {
		req.Header.Set(name, value)
	}
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		t.Fatalf("%q: %v", given, err)
	}
	in := bufio.NewReader(&wire)
	back, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q: %v", given, err)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 || back.Host != "example.com" || back.URL.Path != "/" {
		t.Fatalf("%q: %s%s, and then %q", given, back.Host, back.URL, rest)
	}
	return back.Header
}

// FuzzGraph: upstreams are refused exactly when a walk over all edges comes back,
// and what is refused changes nothing. Each byte is a job, or the beginning of
// another step.
func FuzzGraph(f *testing.F) {
	f.Add("b a;c b;a c")
	f.Add("b a;c b;c;a c")
	f.Add("b aaa;a;d bc;a d")
	f.Fuzz(func(t *testing.T, steps string) {
		if len(steps) > 200 {
			return
		}
		g, ups := NewGraph(), map[string][]string{}
		for step := range strings.SplitSeq(steps, ";") {
			if step == "" {
				continue
			}
			id, to := job8(step[0]), []string(nil)
			for _, b := range []byte(step[1:]) {
				to = append(to, job8(b))
			}
			before := ups[id]
			ups[id] = to
			bad := g.Set(id, to)
			if back := reaches(ups, id, id, 0); back != (bad != nil) {
				t.Fatalf("%s after %v, in %v: %v", id, to, ups, bad)
			}
			if bad != nil {
				ups[id] = before
			}
		}
		edges := 0
		for id, want := range ups {
			distinct := map[string]bool{}
			for _, u := range want {
				distinct[u] = true
			}
			if got := g.Upstreams(id); len(got) != len(distinct) {
				t.Fatalf("%s follows %v, not %v", id, got, want)
			}
			edges += len(distinct)
		}
		if around, all := g.Around("a", edges); !all || len(around) > edges {
			t.Fatalf("%v are around a, of %d", around, edges)
		}
	})
}

// job8 is one of eight jobs.
func job8(b byte) string { return string('a' + b%8) }
