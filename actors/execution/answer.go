package execution

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// longestRetryAfter bounds what is passed on; the job's policy bounds it
// further.
const longestRetryAfter = 365 * 24 * time.Hour

// answered is the result of a call with an answer, once its body is read.
func (s *sending) answered(res *http.Response) *belfryv1.Result {
	output, whole, err := readOutput(res, s.secrets)
	if err != nil && (succeeded(res.StatusCode) || s.late(err)) {
		r := s.broken(err)
		r.StatusCode, r.Output = int32(res.StatusCode), output
		return r
	}
	s.whole = whole && !res.Close
	now := time.Now()
	r := judge(res, now)
	r.Error = s.secrets.mask(r.Error, maxError)
	r.Output, r.SentAt, r.FinishedAt = output, s.sentAt(), now.UnixMilli()
	return r
}

// readOutput reads a body to its end, so that the connection can be used
// again, or to maxAnswer, and keeps the beginning. It does not close the body:
// that would read on.
func readOutput(res *http.Response, secrets secrets) (output string, whole bool, err error) {
	if res.Body == http.NoBody || res.StatusCode == http.StatusSwitchingProtocols {
		return "", res.StatusCode != http.StatusSwitchingProtocols, nil
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, int64(maxOutput+secrets.longest())))
	if err == nil {
		_, err = io.CopyN(io.Discard, res.Body, max(maxAnswer-int64(len(head)), 1))
	}
	if whole = errors.Is(err, io.EOF); whole {
		err = nil
	}
	return secrets.mask(string(head), maxOutput), whole, err
}

// judge decides what a status means.
func judge(res *http.Response, now time.Time) *belfryv1.Result {
	code := res.StatusCode
	r := &belfryv1.Result{StatusCode: int32(code), Outcome: belfryv1.Result_OUTCOME_FAILED}
	if succeeded(code) {
		r.Outcome = belfryv1.Result_OUTCOME_SUCCEEDED
		return r
	}
	r.Error = fmt.Sprintf("HTTP %d %s", code, http.StatusText(code))
	r.Unavailable = code >= 500
	switch {
	case code == http.StatusGone:
		r.Final, r.Gone = true, true
	case code/100 == 3:
		r.Final = true
		r.Error += ", and redirects are not followed" + elsewhere(res.Header.Get("Location"))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		r.RetryAfterMs = retryAfter(res.Header.Get("Retry-After"), now).Milliseconds()
	default:
		r.Final = true
	}
	return r
}

func succeeded(code int) bool { return code/100 == 2 }

// elsewhere says where a redirect leads, without its query, which may hold secrets.
func elsewhere(location string) string {
	u, err := url.Parse(location)
	if err != nil || location == "" {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment = nil, "", false, ""
	return fmt.Sprintf(" (Location: %q)", u.String())
}

// retryAfter is the pause that a target asks for, in seconds or until a date.
// What makes no sense is no wish at all.
func retryAfter(value string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && seconds > uint64(longestRetryAfter/time.Second):
		return longestRetryAfter
	case err == nil:
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), longestRetryAfter)
	}
	return 0
}
