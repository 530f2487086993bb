package cql

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// TestAnswersOfBothShapes: the answer to a commit is exchanged for each of those
// in testdata, and the outcome must be what stands there.
func TestAnswersOfBothShapes(t *testing.T) {
	b := setup(t)
	var x exchange
	s := b.openAs(func(c *Config) { c.seams.dial, c.seams.noProbes = x.dial, true })
	paths, err := filepath.Glob("testdata/answers/*.txt")
	if err != nil || len(paths) != 3 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	partition := int32(0)
	for _, path := range paths {
		for _, a := range readAnswers(t, path) {
			t.Run(a.name, func(t *testing.T) { tryAnswer(t, &x, newChain(t, s, partition), a) })
			partition++
		}
	}
}

func tryAnswer(t *testing.T, x *exchange, c *chain, a recordedAnswer) {
	rows := []persistence.Row{{Slice: 1, JobID: "a", Status: job.Active}, {Slice: 2, JobID: "b", Status: job.Active}}
	op := uuid.New()
	x.arm(a.body(t, c.held, op))
	next, err := c.s.Commit(t.Context(), c.held, persistence.Batch{OpID: op, Rows: rows})
	if !x.done() {
		t.Fatal("the answer was not exchanged")
	}
	if got := outcome(err); got != a.want || err == nil && next.OpID != op {
		t.Errorf("the outcome is %q (%v), want %q", got, err, a.want)
	}
}

// outcome is an error in one word.
func outcome(err error) string {
	var fenced *persistence.Fenced
	var refused *persistence.RowRefused
	switch {
	case err == nil:
		return "applied"
	case errors.As(err, &fenced):
		return "fenced"
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, persistence.ErrInDoubt):
		return "doubt"
	case errors.Is(err, job.ErrUnavailable):
		return "unavailable"
	}
	return "unknown"
}

// exchange dials connections on which the next answer to a conditional write is
// exchanged for another.
type exchange struct {
	mu   sync.Mutex
	body []byte // nil: nothing is exchanged
}

func (x *exchange) arm(body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.body = body
}

func (x *exchange) done() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.body == nil
}

// instead is the frame to deliver.
func (x *exchange) instead(f frame.Frame) frame.Frame {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.body != nil && f.Opcode == frame.OpResult && strings.Contains(string(f.Body), appliedColumn) {
		f.Body, x.body = x.body, nil
	}
	return f
}

func (x *exchange) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &exchanged{Conn: c, x: x, from: bufio.NewReader(c)}, nil
}

type exchanged struct {
	net.Conn
	x    *exchange
	from *bufio.Reader
	rest []byte
}

func (c *exchanged) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		f, err := frame.Read(c.from)
		if err != nil {
			return 0, err
		}
		c.rest = c.x.instead(f).Append(nil)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// recordedAnswer is one answer of a file in testdata.
type recordedAnswer struct {
	name    string
	columns []string // name:type
	rows    []string
	count   int // of rows, as the frame says
	void    bool
	want    string
}

func readAnswers(t *testing.T, path string) (all []recordedAnswer) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verb == "answer" {
			all = append(all, recordedAnswer{name: rest})
			continue
		}
		if verb == "" || verb == "#" {
			continue
		}
		a := &all[len(all)-1]
		switch verb {
		case "columns":
			a.columns = strings.Fields(rest)
		case "row":
			a.rows = append(a.rows, rest)
			a.count = max(a.count, len(a.rows))
		case "rows":
			a.count, _ = strconv.Atoi(rest)
		case "void":
			a.void = true
		case "want":
			a.want = rest
		default:
			t.Fatalf("%s: %q", path, line)
		}
	}
	return all
}

var (
	typeIDs = map[string]uint16{"bigint": 0x2, "boolean": 0x4, "int": 0x9, "uuid": 0xC, "text": 0xD, "smallint": 0x13}
	values  = regexp.MustCompile(`"[^"]*"|\S+`)
)

// body is the body of the RESULT frame.
func (a *recordedAnswer) body(t *testing.T, held persistence.Fence, op uuid.UUID) []byte {
	if a.void {
		return []byte{0, 0, 0, 1}
	}
	fill := strings.NewReplacer("{p}", fmt.Sprint(held.Partition), "{epoch}", fmt.Sprint(held.Epoch), "{epoch+1}", fmt.Sprint(held.Epoch+1),
		"{seq}", fmt.Sprint(held.Seq), "{seq+1}", fmt.Sprint(held.Seq+1), "{held}", held.OpID.String(), "{op}", op.String(), "{other}", uuid.NewString())
	b := binary.BigEndian.AppendUint32(nil, 2) // rows
	b = binary.BigEndian.AppendUint32(b, 1)    // one table for all columns
	b = binary.BigEndian.AppendUint32(b, uint32(len(a.columns)))
	b = frame.AppendString(frame.AppendString(b, "k"), "partitions")
	var types []string
	for _, c := range a.columns {
		name, kind, _ := strings.Cut(c, ":")
		b = binary.BigEndian.AppendUint16(frame.AppendString(b, name), typeIDs[kind])
		types = append(types, kind)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(a.count))
	for _, row := range a.rows {
		for i, v := range values.FindAllString(fill.Replace(row), -1) {
			b = appendValue(t, b, types[i], v)
		}
	}
	return b
}

func appendValue(t *testing.T, b []byte, kind, text string) []byte {
	if text == "null" {
		return binary.BigEndian.AppendUint32(b, 0xffff_ffff)
	}
	var v []byte
	n, err := strconv.ParseInt(text, 10, 64)
	switch kind {
	case "boolean":
		v, err = []byte{0}, nil
		if text == "true" {
			v[0] = 1
		}
	case "int":
		v = binary.BigEndian.AppendUint32(nil, uint32(n))
	case "smallint":
		v = binary.BigEndian.AppendUint16(nil, uint16(n))
	case "bigint":
		v = binary.BigEndian.AppendUint64(nil, uint64(n))
	case "text":
		v, err = []byte(strings.Trim(text, `"`)), nil
	case "uuid":
		var u uuid.UUID
		u, err = uuid.Parse(text)
		v = u[:]
	}
	if err != nil {
		t.Fatal(err)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}
