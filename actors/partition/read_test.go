package partition

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func question[T proto.Message](s *shell, msg proto.Message) T {
	s.t.Helper()
	answer, err := s.system.Root.RequestFuture(s.pid, msg, 10*time.Second).Result()
	out, ok := answer.(T)
	if err != nil || !ok {
		s.t.Fatalf("%T: %v, %v", msg, answer, err)
	}
	return out
}

// TestOwnerShowsAJobAndItsExecutions: what runs, and page by page what waits.
func TestOwnerShowsAJobAndItsExecutions(t *testing.T) {
	s := newShell(t)
	if code := question[*belfryv1.Answer](s, &belfryv1.GetJob{JobId: "a"}).GetRefusal().GetCode(); code != belfryv1.Refusal_CODE_NOT_FOUND {
		t.Errorf("before it is registered: %s", code)
	}
	if code := question[*belfryv1.ExecutionList](s, &belfryv1.ListExecutions{JobId: "a"}).GetRefusal().GetCode(); code != belfryv1.Refusal_CODE_NOT_FOUND {
		t.Errorf("before it is registered: %s", code)
	}
	other := "b"
	for job.PartitionOf(other, 16) == s.owner.part {
		other += "b"
	}
	if code := question[*belfryv1.Answer](s, &belfryv1.GetJob{JobId: other}).GetRefusal().GetCode(); code != belfryv1.Refusal_CODE_NOT_OWNER {
		t.Errorf("a job of another partition: %s", code)
	}
	s.register(spec("0 6 1 1 *"))
	if j := question[*belfryv1.Answer](s, &belfryv1.GetJob{JobId: "a"}).GetJob(); j.GetStatus() != string(job.Active) || j.GetSpec().GetTiming().GetExpr() != "0 6 1 1 *" || j.GetNextRun() == 0 {
		t.Errorf("the job: %v", j)
	}
	var ids []string
	for _, command := range []string{"one", "two", "three"} {
		a := question[*belfryv1.Answer](s, &belfryv1.Command{Id: command, JobId: "a", Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
		ids = append(ids, a.GetExecution().GetExecutionId())
	}
	for range ids {
		<-s.sent
	}
	seen := map[string]bool{}
	var before *belfryv1.Place
	for pages := 1; ; pages++ {
		list := question[*belfryv1.ExecutionList](s, &belfryv1.ListExecutions{JobId: "a", Limit: 2, Before: before})
		for _, e := range list.GetExecutions() {
			seen[e.GetExecutionId()] = true
			if e.GetStatus() != string(job.Running) || e.GetAttempts() != 1 || e.GetAsOf() != 0 {
				t.Errorf("execution %v", e)
			}
		}
		if before = list.GetNext(); before == nil {
			if pages != 2 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	for _, id := range ids {
		if !seen[id] {
			t.Errorf("%s is not listed, but %v", id, seen)
		}
	}
	question[*belfryv1.Answer](s, &belfryv1.Command{Id: "end", JobId: "a", Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
	if code := question[*belfryv1.Answer](s, &belfryv1.GetJob{JobId: "a"}).GetRefusal().GetCode(); code != belfryv1.Refusal_CODE_NOT_FOUND {
		t.Errorf("after its end: %s", code)
	}
	if list := question[*belfryv1.ExecutionList](s, &belfryv1.ListExecutions{JobId: "a"}); len(list.GetExecutions()) != 3 {
		t.Errorf("after its end: %v", list)
	}
}
