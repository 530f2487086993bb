package gateway

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const keyHeader = "Idempotency-Key"

// C131: the same key and body is one job and one answer.
func TestSameKeySameAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"schedule_expr":"@every 10m","target":{"http":{"url":"https://example.com","headers":{"c":"3","a":"1","b":"2"}}},"labels":{"z":"1","y":"2"}}`
	first := b.do("POST", "/v1/jobs", body, keyHeader, "k1").want(201)
	b.advance(7 * time.Minute)
	again := b.do("POST", "/v1/jobs", body, keyHeader, "k1").want(201)
	respaced := b.do("POST", "/v1/jobs", strings.ReplaceAll(body, ",", " ,\n"), keyHeader, "k1").want(201)
	if first.text != again.text || first.text != respaced.text || first.Header.Get("ETag") != again.Header.Get("ETag") {
		t.Errorf("answers differ:\n%s\n%s\n%s", first.text, again.text, respaced.text)
	}
	b.do("POST", "/v1/jobs", spec(""), keyHeader, "k1").problem(api.CodeKeyReused)
	other := b.do("POST", "/v1/jobs", body, keyHeader, "k2").want(201)
	if n := b.count(); n != 2 || other.text == first.text {
		t.Errorf("%d jobs under two keys", n)
	}
}

// A repeat that comes when a one-time instant is long past gets the first
// answer, and not the refusal that a new request would get.
func TestALateRepeatIsNotJudgedAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"schedule_expr":"` + start.Add(time.Minute).Format(time.RFC3339) + `","target":"https://example.com"}`
	first := b.do("POST", "/v1/jobs", body, keyHeader, "k").want(201)
	b.advance(5 * time.Hour)
	if again := b.do("POST", "/v1/jobs", body, keyHeader, "k").want(201); again.text != first.text {
		t.Errorf("answers differ:\n%s\n%s", first.text, again.text)
	}
	b.do("POST", "/v1/jobs", body, keyHeader, "other").refused("body.schedule_expr")
}

func TestAKeyIsScopedToAnExplicitJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []string{"a", "b", "c"} {
		b.do("POST", "/v1/jobs", spec(`"job_id":"`+id+`"`), keyHeader, "k").want(201)
		b.do("POST", "/v1/jobs", spec(`"job_id":"`+id+`"`), keyHeader, "k").want(201)
	}
	b.do("POST", "/v1/jobs", spec(`"job_id":"a","description":"x"`), keyHeader, "k").problem(api.CodeKeyReused)
	one := b.do("POST", "/v1/jobs/a/trigger", "", keyHeader, "k").want(202)
	two := b.do("POST", "/v1/jobs/a/trigger", "", keyHeader, "k").want(202)
	if one.text != two.text {
		t.Errorf("one key triggered twice: %s %s", one.text, two.text)
	}
	if e := b.do("POST", "/v1/jobs/a/trigger", "").want(202); e.text == one.text {
		t.Error("two triggers without a key are one")
	}
}

// Twenty at once: those that come while the first is worked on are told so.
func TestTwentyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	busy, others := false, make(chan struct{})
	b.owners.before = func(msg proto.Message) error {
		if _, ok := msg.(*belfryv1.Command); !ok {
			return nil
		}
		mu.Lock()
		first := !busy
		busy = true
		mu.Unlock()
		if first {
			<-others // the batch is on its way to the disk
			return nil
		}
		return &inFlightError{}
	}
	answers := make(chan response, 20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { answers <- b.do("POST", "/v1/jobs", spec(""), keyHeader, "k") })
	}
	for range 19 {
		(<-answers).problem(api.CodeInFlight)
	}
	close(others)
	all.Wait()
	first := (<-answers).want(201)
	b.owners.before = nil
	if again := b.do("POST", "/v1/jobs", spec(""), keyHeader, "k").want(201); again.text != first.text || b.count() != 1 {
		t.Errorf("%d jobs, %s and %s", b.count(), first.text, again.text)
	}
}

// inFlightError makes the fake answer as an owner does while a batch is out.
type inFlightError struct{}

func (*inFlightError) Error() string { return "in flight" }

// The first answer is lost on its way: a repeat finds what it did.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lose := true
	b.gw.cfg.Owners = lossy{b.owners, &lose}
	b.do("POST", "/v1/jobs", spec(""), keyHeader, "k").problem(api.CodeOwnerAway)
	lose = false
	b.do("POST", "/v1/jobs", spec(""), keyHeader, "k").want(http.StatusCreated)
	if n := b.count(); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{" ", "a b", "ключ", strings.Repeat("k", 256)} {
		b.do("POST", "/v1/jobs", spec(""), keyHeader, key).refused("header." + keyHeader)
	}
	b.do("POST", "/v1/jobs", spec(""), keyHeader, strings.Repeat("k", 255)).want(201)
	if n := b.count(); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestOwnerAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.owners.before = func(proto.Message) error { return job.ErrNoOwner }
	for _, r := range []response{
		b.do("POST", "/v1/jobs", spec("")), b.do("PUT", "/v1/jobs/a", spec("")), b.do("PATCH", "/v1/jobs/a", "{}"),
		b.do("DELETE", "/v1/jobs/a", ""), b.do("POST", "/v1/jobs/a/pause", ""), b.do("POST", "/v1/jobs/a/trigger", ""),
	} {
		r.problem(api.CodeOwnerAway)
	}
	b.do("GET", "/v1/jobs/a", "").want(200)
	b.owners.before = func(proto.Message) error { return errors.New("an odd failure: secret-detail") }
	if p := b.do("DELETE", "/v1/jobs/a", "").problem(api.CodeInternal); strings.Contains(p.Detail, "secret-detail") {
		t.Errorf("the client is told %s", p.Detail)
	}
	if !strings.Contains(b.log.String(), "secret-detail") {
		t.Error("the cause is not logged")
	}
}

func TestRefusalsOfAnOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	for code, want := range map[belfryv1.Refusal_Code]string{
		belfryv1.Refusal_CODE_BUSY:        api.CodeOverloaded,
		belfryv1.Refusal_CODE_NOT_OWNER:   api.CodeOwnerAway,
		belfryv1.Refusal_CODE_UNAVAILABLE: api.CodeStoreAway,
		belfryv1.Refusal_CODE_STATE:       api.CodeWrongState,
		belfryv1.Refusal_CODE_INVALID:     api.CodeInvalid,
		belfryv1.Refusal_CODE_IN_FLIGHT:   api.CodeInFlight,
		belfryv1.Refusal_CODE_KEY_REUSED:  api.CodeKeyReused,
		belfryv1.Refusal_Code(99):         api.CodeInternal,
	} {
		b.owners.refuse = func(*belfryv1.Command) *belfryv1.Refusal {
			return &belfryv1.Refusal{Code: code, Message: "words of the owner, long enough", Field: "schedule_expr"}
		}
		b.do("POST", "/v1/jobs/a/trigger", "").problem(want)
	}
}
