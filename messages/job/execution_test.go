package job

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func jobIDs() *rapid.Generator[string] {
	return rapid.StringMatching(`[A-Za-z0-9._-]{1,128}`).Filter(func(id string) bool { return CheckID(id) == nil })
}

func slots() *rapid.Generator[time.Time] {
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC).UnixMilli()
	return rapid.Map(rapid.Int64Range(0, last), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
}

func TestExecutionIDsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := ExecutionRef{
			JobID:      jobIDs().Draw(t, "job"),
			Generation: rapid.Int64Range(1, 1<<62).Draw(t, "generation"),
			At:         slots().Draw(t, "at"),
		}
		id := ScheduledID(want.JobID, want.Generation, want.At)
		if rapid.Bool().Draw(t, "manual") {
			command := rapid.String().Draw(t, "command")
			want.Kind, want.Hash = Manual, CommandHash(command)
			id = ManualID(want.JobID, want.Generation, command, want.At)
		}
		got, ok := ParseExecutionID(id)
		if !ok || got != want {
			t.Fatalf("%s reads as %+v, %v; want %+v", id, got, ok, want)
		}
		if len(id) > MaxExecutionID {
			t.Fatalf("%d bytes", len(id))
		}
	})
}

func TestExecutionIDsSortByTimeWithinAGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := slots().Draw(t, "a"), slots().Draw(t, "b")
		if got, want := strings.Compare(ScheduledID("j", 7, a), ScheduledID("j", 7, b)), a.Compare(b); got != want {
			t.Fatalf("%v and %v compare as %d, their ids as %d", a, b, want, got)
		}
	})
}

func TestIDsThatNobodyMade(t *testing.T) {
	good := ScheduledID("job", 35, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if good != "job~z~20260101T000000.000Z" {
		t.Fatalf("the form of an id has changed: %s", good)
	}
	for _, id := range []string{
		"", "job", "~~", "job~z", good + "~", "~" + good, " " + good, good + "\n",
		"~z~20260101T000000.000Z", "..~z~20260101T000000.000Z", "a/b~z~20260101T000000.000Z", "jöb~z~20260101T000000.000Z",
		"job~0~20260101T000000.000Z", "job~-1~20260101T000000.000Z", "job~+z~20260101T000000.000Z", "job~Z~20260101T000000.000Z", "job~0z~20260101T000000.000Z",
		"job~zzzzzzzzzzzzzzzz~20260101T000000.000Z",
		"job~z~20260101T000000Z", "job~z~20260101T000000.0000Z", "job~z~20260132T000000.000Z", "job~z~20260101T240000.000Z", "job~z~20260101T000000,000Z",
		"job~z~m~20260101T000000.000Z", "job~z~x" + strings.Repeat("a", 26) + "~20260101T000000.000Z",
		strings.Repeat("a", 129) + "~z~20260101T000000.000Z",
	} {
		if ref, ok := ParseExecutionID(id); ok {
			t.Errorf("%q reads as %+v", id, ref)
		}
	}
}

// What is read is always what is written: an id has one spelling.
func FuzzParseExecutionID(f *testing.F) {
	at := time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)
	f.Add(ScheduledID("job", 1, at))
	f.Add(ManualID("job", 1<<40, "command", at))
	f.Add(MarkedID(Backfilled, "job", 1<<40, BackfillHash("b", at), at))
	f.Add("job~1~20260101T000000,000Z")
	f.Fuzz(func(t *testing.T, id string) {
		ref, ok := ParseExecutionID(id)
		if !ok {
			return
		}
		if CheckID(ref.JobID) != nil || ref.Generation <= 0 {
			t.Fatalf("%q reads as %+v", id, ref)
		}
		again := ScheduledID(ref.JobID, ref.Generation, ref.At)
		if ref.Kind != Scheduled {
			again = MarkedID(ref.Kind, ref.JobID, ref.Generation, ref.Hash, ref.At)
		}
		if again != id {
			t.Fatalf("%q is written %q", id, again)
		}
	})
}
