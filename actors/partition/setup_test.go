package partition

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func storedSpec(s job.Spec) *belfryv1.JobSpec { return messages.Spec(s.Normalize()) }

func timingOf(t testing.TB, sp *belfryv1.JobSpec) *job.Schedule {
	s, err := job.Compile(messages.FromTiming(sp.GetTiming()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
