package frame_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/internal/recorded"
)

const file = "../testdata/session.txt"

// Every recorded frame is written again as it was read.
func TestFramesRoundTrip(t *testing.T) {
	for _, line := range recorded.Read(t, file) {
		f, err := frame.Read(bytes.NewReader(line.Bytes))
		if err != nil {
			t.Fatalf("line %d: %v", line.Number, err)
		}
		if f.Answer != line.Answer || f.Version != frame.Version {
			t.Errorf("line %d: answer %v, version %d", line.Number, f.Answer, f.Version)
		}
		if again := f.Append(nil); !bytes.Equal(again, line.Bytes) {
			t.Errorf("line %d: written as %x", line.Number, again)
		}
	}
}

// The statements of recorded requests are known by their texts, those of an
// EXECUTE and a BATCH by the ids that recorded answers gave them.
func TestStatements(t *testing.T) {
	const (
		create = "CREATE TABLE IF NOT EXISTS rec.t (p int, epoch bigint STATIC, c int, v text, PRIMARY KEY (p, c))"
		first  = "INSERT INTO rec.t (p, c, epoch, v) VALUES (?, ?, ?, ?) IF NOT EXISTS"
		fence  = "UPDATE rec.t SET epoch=? WHERE p=? IF epoch=?"
		insert = "INSERT INTO rec.t (p, c, v) VALUES (?, ?, ?)"
		fixed  = "INSERT INTO rec.t (p, c, v) VALUES (1, 2, 'IF only')"
		get    = "SELECT v FROM rec.t WHERE p=? AND c=?"
	)
	want := []string{
		"PREPARE ANY: " + create,
		"PREPARE ANY: " + first,
		"EXECUTE LOCAL_QUORUM: " + first,
		"PREPARE ANY: " + fence,
		"EXECUTE LOCAL_QUORUM: " + fence,
		"PREPARE ANY: " + insert,
		"BATCH LOCAL_QUORUM: " + fence + "; " + insert + "; " + fixed,
		"PREPARE ANY: " + get,
		"EXECUTE LOCAL_SERIAL: " + get,
		"PREPARE ANY: SELECT nothing FROM rec.t",
	}
	if diff := cmp.Diff(want, statementsOf(t)); diff != "" {
		t.Error(diff)
	}
}

func statementsOf(t *testing.T) []string {
	var got []string
	texts := map[string]string{}    // by prepared id
	preparing := map[int16]string{} // by stream
	for _, line := range recorded.Read(t, file) {
		f, err := frame.Read(bytes.NewReader(line.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := frame.PreparedID(f); ok {
			texts[id] = preparing[f.Stream]
		}
		q, err := frame.ParseRequest(f)
		if err != nil {
			t.Fatalf("line %d: %v", line.Number, err)
		}
		if f.Answer || len(q.Statements) == 0 {
			continue
		}
		text := ""
		for i, s := range q.Statements {
			if i > 0 {
				text += "; "
			}
			text += s.Text + texts[s.ID]
		}
		preparing[f.Stream] = text
		got = append(got, f.Opcode.String()+" "+q.Consistency.String()+": "+text)
	}
	return got
}

func TestRecordedError(t *testing.T) {
	var got []*frame.Error
	for _, line := range recorded.Read(t, file) {
		f, err := frame.Read(bytes.NewReader(line.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		if e := frame.ParseError(f); e != nil {
			got = append(got, e)
			if again := e.Frame(f.Stream); !bytes.Equal(again.Append(nil), line.Bytes) {
				t.Errorf("the error is written as %x", again.Append(nil))
			}
		}
	}
	if len(got) != 1 || got[0].Code != 0x2200 || got[0].Message != "Undefined column name nothing in table rec.t" {
		t.Errorf("errors: %v", got)
	}
}

// A frame that ends early is an error wherever it ends, in its header and in
// every part of its body.
func TestCutFrames(t *testing.T) {
	for _, line := range recorded.Read(t, file) {
		for n := range line.Bytes {
			_, err := frame.Read(bytes.NewReader(line.Bytes[:n]))
			if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[n == 0]; !errors.Is(err, want) {
				t.Fatalf("line %d cut at %d: %v, want %v", line.Number, n, err, want)
			}
		}
		f, err := frame.Read(bytes.NewReader(line.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		checkCutBodies(t, line.Number, f)
	}
}

// checkCutBodies parses what is left of a body that ends early: a request must
// end with its consistency or behind it, an answer says at worst that it is
// malformed.
func checkCutBodies(t *testing.T, line int, f frame.Frame) {
	whole, err := frame.ParseRequest(f)
	if err != nil {
		t.Fatal(err)
	}
	body := f.Body
	for n := range body {
		f.Body = body[:n]
		_, _ = frame.PreparedID(f)
		_ = frame.ParseError(f)
		got, err := frame.ParseRequest(f)
		if err == nil && !cmp.Equal(got, whole) {
			t.Fatalf("line %d, body cut at %d, was read as %+v", line, n, got)
		}
		if err != nil && !errors.Is(err, frame.ErrMalformed) {
			t.Fatalf("line %d, body cut at %d: %v", line, n, err)
		}
	}
}

func TestTooLong(t *testing.T) {
	header := []byte{frame.Version, 0, 0, 1, byte(frame.OpQuery), 0xFF, 0xFF, 0xFF, 0xFF}
	if _, err := frame.Read(bytes.NewReader(header)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body of 4 GiB: %v", err)
	}
}

// What flags put in front of a body is passed over.
func TestFlags(t *testing.T) {
	e := &frame.Error{Code: frame.CodeOverloaded, Message: "busy"}
	plain := e.Frame(3)
	warning := append([]byte{0, 1}, frame.AppendString(nil, "large batch")...)
	payload := append(append([]byte{0, 1}, frame.AppendString(nil, "key")...), 0, 0, 0, 1, 'v')
	tracing := make([]byte, 16)
	f := plain
	f.Flags = frame.FlagTracing | frame.FlagWarning | frame.FlagCustomPayload
	f.Body = append(append(append(tracing, warning...), payload...), plain.Body...)
	if got := frame.ParseError(f); got == nil || got.Code != e.Code || got.Message != e.Message {
		t.Errorf("behind all flags: %v", got)
	}
	q := frame.Query("SELECT 1", frame.One)
	q.Flags = frame.FlagCustomPayload
	q.Body = append(payload, q.Body...)
	got, err := frame.ParseRequest(q)
	if err != nil || len(got.Statements) != 1 || got.Statements[0].Text != "SELECT 1" {
		t.Errorf("behind a payload: %+v, %v", got, err)
	}
}
