package messages

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func stampedState(t *testing.T, format int) []byte {
	t.Helper()
	st := &belfryv1.JobState{Generation: 1}
	StampFormat(st, format)
	if got := FormatOf(st); got != max(1, format) {
		t.Fatalf("stamped with %d, it says %d", format, got)
	}
	out, err := proto.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRowsOfANewerFormat: they are not malformed, and no other is refused.
func TestRowsOfANewerFormat(t *testing.T) {
	for format := range Format + 1 {
		if _, _, err := DecodeJob(nil, stampedState(t, format)); err != nil {
			t.Errorf("format %d: %v", format, err)
		}
	}
	_, _, err := DecodeJob(nil, stampedState(t, Format+1))
	var newer *NewerFormat
	if !errors.As(err, &newer) || newer.Format != Format+1 || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("format %d: got error %v, want NewerFormat", Format+1, err)
	}
}

// TestTheFirstFormatTakesNoRoom: rows from before formats were written read the
// same as rows of the first.
func TestTheFirstFormatTakesNoRoom(t *testing.T) {
	plain, err := proto.Marshal(&belfryv1.JobState{Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := stampedState(t, 1); string(got) != string(plain) {
		t.Errorf("%x, want %x", got, plain)
	}
}
