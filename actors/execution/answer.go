package execution

import (
	"context"
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
func (s *sending) answered(call, parent context.Context, res *http.Response, limit time.Duration, secrets secrets) *belfryv1.Result {
	output, err := readOutput(res, secrets)
	if err != nil && (succeeded(res.StatusCode) || call.Err() != nil) {
		r := s.broken(call, parent, err, limit, secrets)
		r.StatusCode, r.Output = int32(res.StatusCode), output
		return r
	}
	now := time.Now()
	r := judge(res, now)
	r.Error = secrets.mask(r.Error, maxError)
	r.Output, r.SentAt, r.FinishedAt = output, s.sentAt(), now.UnixMilli()
	return r
}

// readOutput reads a body to its end, so that the connection can be used
// again, or to maxAnswer, and keeps the beginning.
func readOutput(res *http.Response, secrets secrets) (string, error) {
	defer func() { _ = res.Body.Close() }() // what was not read is dropped with the connection
	if res.Body == http.NoBody || res.StatusCode == http.StatusSwitchingProtocols {
		return "", nil
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, int64(maxOutput+secrets.longest())))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, int64(max(maxAnswer-len(head), 1))))
	}
	return secrets.mask(string(head), maxOutput), err
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
	switch {
	case code == http.StatusGone:
		r.Final, r.Gone = true, true
	case code/100 == 3:
		r.Final = true
		r.Error += ", and redirects are not followed" + place(res.Header.Get("Location"))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		r.RetryAfterMs = retryAfter(res.Header.Get("Retry-After"), now).Milliseconds()
	default:
		r.Final = true
	}
	return r
}

func succeeded(code int) bool { return code/100 == 2 }

// place says where a redirect leads, without its query, which may hold secrets.
func place(location string) string {
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
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		if seconds > uint64(longestRetryAfter/time.Second) {
			return longestRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), longestRetryAfter)
	}
	return 0
}
